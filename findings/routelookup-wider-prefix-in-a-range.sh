#!/usr/bin/env bash
# routelookup lists 192.0.0.0/16 among the subnets of 192.0.0.0/24.
#
# routelookup 1.0.3 and pytricia 1.3.0 from PyPI. lookup_range(prefix) should return the prefixes of a table that are subnets of
# the prefix, and children(prefix) the more specific ones, as in pytricia, whose interface routelookup has as well. Both compare
# addresses and not lengths, so that wider prefixes with the same first address are in the answer. A program that deletes the
# bans inside a network deletes the ban around it.
#
# Output seen:
#   lookup_range(192.0.0.0/24): ['192.0.0.0/16', '192.0.0.0/24', '192.0.0.0/25', '192.0.0.128/25']
#   children(192.0.0.0/24): routelookup ['192.0.0.0/16', '192.0.0.0/25', '192.0.0.128/25'], pytricia ['192.0.0.0/25', '192.0.0.128/25']
#   lookup_range(192.0.0.128/25): ['192.0.0.128/25']
#   children(192.0.0.128/25): routelookup [], pytricia []
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check routelookup==1.0.3 pytricia==1.3.0
cat >range.py <<'P'
import pytricia
import routelookup.pytricia
from routelookup.addrmodule.ipaddress import IpaddressAddrHandler
from routelookup.routetable import BaseRouteTable

PREFIXES = "192.0.0.0/16", "192.0.0.0/24", "192.0.0.0/25", "192.0.0.128/25", "192.0.1.0/24"
table, python, original = BaseRouteTable(IpaddressAddrHandler()), routelookup.pytricia.PyTricia(), pytricia.PyTricia()
for tree in table, python, original:
    for prefix in PREFIXES:
        tree[prefix] = prefix
for prefix in "192.0.0.0/24", "192.0.0.128/25":
    print(f"lookup_range({prefix}): {sorted(found for _, found in table.lookup_range(prefix))}")
    print(f"children({prefix}): routelookup {sorted(python.children(prefix))}, pytricia {sorted(original.children(prefix))}")
P
venv/bin/python range.py | tee seen
cmp - seen <<'END'
lookup_range(192.0.0.0/24): ['192.0.0.0/16', '192.0.0.0/24', '192.0.0.0/25', '192.0.0.128/25']
children(192.0.0.0/24): routelookup ['192.0.0.0/16', '192.0.0.0/25', '192.0.0.128/25'], pytricia ['192.0.0.0/25', '192.0.0.128/25']
lookup_range(192.0.0.128/25): ['192.0.0.128/25']
children(192.0.0.128/25): routelookup [], pytricia []
END
