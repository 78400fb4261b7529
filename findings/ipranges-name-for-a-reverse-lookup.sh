#!/usr/bin/env bash
# ipranges leaves zeros out of an IPv6 address's name for a reverse lookup: 30 digits for 64:ff9b::192.0.2.7.
#
# ipranges 0.1.13 from PyPI. The name under ip6.arpa should have 32 digits (RFC 3596), as in Python's ipaddress. to_ptr_str() leaves
# out the zeros in front of the first digit, and only fills up to 16 digits. The names of 2001:db8::/32 are right; those of the
# addresses behind NAT64, in 64:ff9b::/96, are two digits short, and are not in the DNS.
#
# Output seen, with the digits in front of ip6.arpa:
#   2001:db8::1: ipranges 32, ipaddress 32, equal: True
#   64:ff9b::192.0.2.7: ipranges 30, ipaddress 32, equal: False
#   ::ffff:192.0.2.7: ipranges 16, ipaddress 32, equal: False
#   ::1: ipranges 16, ipaddress 32, equal: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ipranges==0.1.13
cat >names.py <<'P'
import ipaddress

import ipranges

for address in "2001:db8::1", "64:ff9b::192.0.2.7", "::ffff:192.0.2.7", "::1":
    name = ipranges.IP6(address).to_ptr_str()
    right = ipaddress.ip_address(address).reverse_pointer + "."
    print(f"{address}: ipranges {name.count('.') - 2}, ipaddress {right.count('.') - 2}, equal: {name == right}")
P
venv/bin/python names.py | tee seen
cmp - seen <<'END'
2001:db8::1: ipranges 32, ipaddress 32, equal: True
64:ff9b::192.0.2.7: ipranges 30, ipaddress 32, equal: False
::ffff:192.0.2.7: ipranges 16, ipaddress 32, equal: False
::1: ipranges 16, ipaddress 32, equal: False
END
