#!/usr/bin/env bash
# The match "limit" of iptables turns every rate from 5,001 to 9,999 per second into 10,000, without a word.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18. "--limit 5001/second" should limit to about 5,001 per second, or fail. It
# limits to 10,000. The match keeps the time between two packets in whole units of 100 µs and rounds down: 5,001 per second
# becomes one unit, and 3,334 per second becomes two, which is 5,000. The manual page does not name these steps.
#
# Output seen:
#   3334/second: 5000/sec
#   5000/second: 5000/sec
#   5001/second: 10000/sec
#   9999/second: 10000/sec
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
iptables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-nft-multi" iptables "$@"; }
ip netns add "$space"
iptables --version | tee version
grep -q 'v1\.8\.9' version

for rate in 3334 5000 5001 9999; do
  iptables -F INPUT
  iptables -A INPUT -m limit --limit $rate/second -j ACCEPT
  echo "$rate/second: $(iptables -S INPUT | grep -o '[0-9]*/sec')"
done | tee seen
cmp - seen <<'END'
3334/second: 5000/sec
5000/second: 5000/sec
5001/second: 10000/sec
9999/second: 10000/sec
END
