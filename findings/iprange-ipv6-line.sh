#!/usr/bin/env bash
# iprange makes the IPv4 address 0.0.7.209 of an IPv6 address in a list.
#
# iprange 1.0.4+ds-2 of Debian 12, the tool of FireHOL for lists; it knows IPv4. A line with 2001:db8::1 should be left out with
# the warning that it gives, or be refused. It reads "2001" up to the colon as a whole address in decimal, warns of the text
# after it, exits with 0, and the list for the firewall has an address that nobody wrote.
#
# Output seen:
#   iprange: Ignoring text after hostname '2001' on line 2: ':db8::1
#   status 0: 0.0.7.209 192.0.2.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iprange=1.0.4+ds-2
dpkg-deb -x iprange_*.deb root
(root/usr/bin/iprange --version || true) 2>&1 | head -1 | tee version
grep -q '1\.0\.4' version

printf '%s\n' 192.0.2.7 2001:db8::1 >list
{
  root/usr/bin/iprange list 2>warned >printed && status=0 || status=$?
  head -1 warned
  echo "status $status: $(paste -sd' ' printed)"
} | tee seen
cmp - seen <<'END'
iprange: Ignoring text after hostname '2001' on line 2: ':db8::1
status 0: 0.0.7.209 192.0.2.7
END
