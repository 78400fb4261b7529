#!/usr/bin/env bash
# hashlimit rounds a burst of bytes up to a multiple of the rate: 5 MB become 6 MB at 3 MB/s.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18. A burst of 5mb at a rate of 3mb/s should be 5 MB, as one of packets is what
# it says. It is listed as 6mb: the match keeps it as a whole number of seconds of the rate. The rate is kept in units of 16
# bytes, so that 1000b/s become 992b/s, and a burst of the rate itself, 3mb at 3mb/s, is refused as 32 bytes too small, without
# a reason.
#
# Output seen:
#   upto 3mb/s burst 5mb: upto 3mb/s burst 6mb
#   upto 3mb/s burst 3mb: burst cannot be smaller than 3145760b
#   upto 1000b/s burst 2000b: upto 992b/s burst 2kb
#   upto 3/second burst 5: upto 3/sec burst 5
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
ip netns add "$space"
xtables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-legacy-multi" "$@"; }
xtables iptables --version | tee version
grep -q 'v1\.8\.9' version

number=0
for limit in 'upto 3mb/s burst 5mb' 'upto 3mb/s burst 3mb' 'upto 1000b/s burst 2000b' 'upto 3/second burst 5'; do
  number=$((number + 1))
  read -r _ rate _ burst <<<"$limit"
  xtables iptables -F INPUT
  if xtables iptables -A INPUT -m hashlimit --hashlimit-upto "$rate" --hashlimit-burst "$burst" \
    --hashlimit-name "table$number" -j ACCEPT 2>error; then
    listed=$(xtables iptables -S INPUT | grep -oE 'hashlimit-(upto|burst) [^ ]*' | sed 's/hashlimit-//' | paste -sd' ')
  else
    listed=$(grep -o 'burst cannot.*' error)
  fi
  echo "$limit: $listed"
done | tee seen
cmp - seen <<'END'
upto 3mb/s burst 5mb: upto 3mb/s burst 6mb
upto 3mb/s burst 3mb: burst cannot be smaller than 3145760b
upto 1000b/s burst 2000b: upto 992b/s burst 2kb
upto 3/second burst 5: upto 3/sec burst 5
END
