#!/usr/bin/env bash
# nft refuses a limit of one megabyte per day as a value too large, and takes 10,000 megabytes per second.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. A limit of bytes has the units second, minute, hour, day and week,
# and one megabyte per day should be taken, as one million packets per day are. The kernel multiplies the bytes by the
# nanoseconds of the unit in 64 bits: what fits is 208 kbytes per day or 29 kbytes per week. A higher rate in a shorter unit is
# taken.
#
# Output seen:
#   10000 mbytes/second: taken
#   200 mbytes/minute: taken
#   10 mbytes/hour: Error: Could not process rule: Value too large for defined data type
#   1 mbytes/day: Error: Could not process rule: Value too large for defined data type
#   208 kbytes/day: taken
#   30 kbytes/week: Error: Could not process rule: Value too large for defined data type
#   1000000/day: taken
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
ip netns add "$space"
nft --version | tee version
grep -q 'v1\.0\.6' version

for rate in '10000 mbytes/second' '200 mbytes/minute' '10 mbytes/hour' '1 mbytes/day' '208 kbytes/day' '30 kbytes/week' 1000000/day; do
  nft flush ruleset
  if printf '%s\n' 'table ip finding {' 'chain limits {' "limit rate $rate accept" '}' '}' | nft --file - 2>error; then
    echo "$rate: taken"
  else
    echo "$rate: $(grep -o 'Error.*' error)"
  fi
done | tee seen
cmp - seen <<'END'
10000 mbytes/second: taken
200 mbytes/minute: taken
10 mbytes/hour: Error: Could not process rule: Value too large for defined data type
1 mbytes/day: Error: Could not process rule: Value too large for defined data type
208 kbytes/day: taken
30 kbytes/week: Error: Could not process rule: Value too large for defined data type
1000000/day: taken
END
