#!/usr/bin/env bash
# iprange counts no address in the network of all addresses.
#
# iprange 1.0.4+ds-2 of Debian 12, the tool of FireHOL for lists. "--count-unique" prints the lines and the addresses of a list.
# For 0.0.0.0/0 it should print 4294967296, as it does for its two halves. It prints 0, as for an empty list. A script that
# reports how large its lists are says so of the widest one of all.
#
# Output seen:
#   0.0.0.0/1: 1,2147483648
#   0.0.0.0/0: 1,0
#   0.0.0.0/1 128.0.0.0/1: 2,4294967296
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iprange=1.0.4+ds-2
dpkg-deb -x iprange_*.deb root
(root/usr/bin/iprange --version || true) 2>&1 | head -1 | tee version
grep -q '1\.0\.4' version

count() { echo "$*: $(printf '%s\n' "$@" | root/usr/bin/iprange --count-unique)"; }
{
  count 0.0.0.0/1
  count 0.0.0.0/0
  count 0.0.0.0/1 128.0.0.0/1
} | tee seen
cmp - seen <<'END'
0.0.0.0/1: 1,2147483648
0.0.0.0/0: 1,0
0.0.0.0/1 128.0.0.0/1: 2,4294967296
END
