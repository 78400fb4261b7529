#!/usr/bin/env bash
# "ipset test" of a network denies one that the set blocks wholly, and confirms one of which half is missing.
#
# ipset 7.17-1 of Debian 12; seen on Linux 6.18. A hash:net set has 192.0.2.0/24, so that 192.0.2.128/25 should be in it, as each
# of its addresses is. ipset says no: it looks for that very entry. A hash:ip set has four addresses of 192.0.2.0/29, so that the
# network should not be in it. ipset says yes: it looks for the first address only.
#
# Output seen:
#   hash:net of 192.0.2.0/24: 192.0.2.200 is in set
#   hash:net of 192.0.2.0/24: 192.0.2.128/25 is NOT in set
#   hash:ip of 192.0.2.0 to 192.0.2.3: 192.0.2.4 is NOT in set
#   hash:ip of 192.0.2.0 to 192.0.2.3: 192.0.2.0/29 is in set
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq ipset=7.17-1 libipset13=7.17-1 libmnl0=1.0.4-3
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
ip netns add "$space"
ipset() { ip netns exec "$space" "$folder/root/usr/sbin/ipset" "$@"; }
ipset --version | tee version
grep -q 'v7\.17' version

ipset create networks hash:net
ipset add networks 192.0.2.0/24
ipset create addresses hash:ip
ipset add addresses 192.0.2.0/30
try() { echo "$1: $(ipset test "$2" "$3" 2>&1 | grep -oE '[^ ]+ is (NOT )?in set')"; }
{
  try 'hash:net of 192.0.2.0/24' networks 192.0.2.200
  try 'hash:net of 192.0.2.0/24' networks 192.0.2.128/25
  try 'hash:ip of 192.0.2.0 to 192.0.2.3' addresses 192.0.2.4
  try 'hash:ip of 192.0.2.0 to 192.0.2.3' addresses 192.0.2.0/29
} | tee seen
cmp - seen <<'END'
hash:net of 192.0.2.0/24: 192.0.2.200 is in set
hash:net of 192.0.2.0/24: 192.0.2.128/25 is NOT in set
hash:ip of 192.0.2.0 to 192.0.2.3: 192.0.2.4 is NOT in set
hash:ip of 192.0.2.0 to 192.0.2.3: 192.0.2.0/29 is in set
END
