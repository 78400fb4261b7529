#!/usr/bin/env bash
# "prips -c" of a range of five addresses prints a network of 16.
#
# prips 1.2.0-1 and netmask 2.4.4-3 of Debian 12. Its manual page says of -c that it prints the range in CIDR notation. For
# 192.0.2.5 to 192.0.2.9 it should print three prefixes, as netmask does, or fail. It prints the smallest network around both
# ends, 192.0.2.0/28, with status 0 and no warning: a ban of five addresses becomes one of 16. From .127 to .128, two addresses
# become 256.
#
# Output seen:
#   prips: 192.0.2.5 192.0.2.6 192.0.2.7 192.0.2.8 192.0.2.9
#   prips -c: 192.0.2.0/28
#   netmask: 192.0.2.5/32 192.0.2.6/31 192.0.2.8/31
#   prips -c, from 192.0.2.127 to 192.0.2.128: 192.0.2.0/24
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq prips=1.2.0-1 netmask=2.4.4-3
for package in *.deb; do dpkg-deb -x "$package" root; done
prips() { root/usr/bin/prips "$@" | paste -sd' '; }
{
  echo "prips: $(prips 192.0.2.5 192.0.2.9)"
  echo "prips -c: $(prips -c 192.0.2.5 192.0.2.9)"
  echo "netmask: $(root/usr/bin/netmask 192.0.2.5:192.0.2.9 | tr -d ' ' | paste -sd' ')"
  echo "prips -c, from 192.0.2.127 to 192.0.2.128: $(prips -c 192.0.2.127 192.0.2.128)"
} | tee seen
cmp - seen <<'END'
prips: 192.0.2.5 192.0.2.6 192.0.2.7 192.0.2.8 192.0.2.9
prips -c: 192.0.2.0/28
netmask: 192.0.2.5/32 192.0.2.6/31 192.0.2.8/31
prips -c, from 192.0.2.127 to 192.0.2.128: 192.0.2.0/24
END
