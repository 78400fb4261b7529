#!/usr/bin/env bash
# IP-Subnet-Trie finds fe80::/10 and calls it "fe8:/10", and 2001:db8:100:200::/64 as a network of other addresses.
#
# IP-Subnet-Trie 1.0 from PyPI with protobuf 7.36.2. A trie returns the name of a network that it holds, which should be the one
# that was inserted, in one of the forms of IPv6. To shorten zeros it replaces the first "0:" of the text, which is also the end
# of "100:". Four of the six names mean nothing, and a fifth one means another network. IPv4 names are right.
#
# Output seen, with the reading of Python's ipaddress:
#   2001:db8::/32: 2001:db8::/32 (2001:db8::/32)
#   fe80::/10: fe8:/10 (no network)
#   2001:db8:10::/48: 2001:db8:1:::/48 (no network)
#   2001:db8:100:200::/64: 2001:db8:10::200:0:0:0/64 (2001:db8:10::/64)
#   2001:db8:0:1::/64: 2001:db8:::1:0:0:0/64 (no network)
#   2001:db8::7/128: 2001:db8:::7/128 (no network)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check IP-Subnet-Trie==1.0 protobuf==7.36.2
cat >names.py <<'P'
import ipaddress

from ip_subnet_trie import IPv6SubnetTrie

NETWORKS = "2001:db8::/32", "fe80::/10", "2001:db8:10::/48", "2001:db8:100:200::/64", "2001:db8:0:1::/64", "2001:db8::7/128"
for network in NETWORKS:
    trie = IPv6SubnetTrie()
    trie.insert(network)
    name = trie.search(network)
    try:
        meaning = ipaddress.ip_network(name, strict=False)
    except ValueError:
        meaning = "no network"
    print(f"{network}: {name} ({meaning})")
P
venv/bin/python names.py | tee seen
cmp - seen <<'END'
2001:db8::/32: 2001:db8::/32 (2001:db8::/32)
fe80::/10: fe8:/10 (no network)
2001:db8:10::/48: 2001:db8:1:::/48 (no network)
2001:db8:100:200::/64: 2001:db8:10::200:0:0:0/64 (2001:db8:10::/64)
2001:db8:0:1::/64: 2001:db8:::1:0:0:0/64 (no network)
2001:db8::7/128: 2001:db8:::7/128 (no network)
END
