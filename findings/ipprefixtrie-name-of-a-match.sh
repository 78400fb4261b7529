#!/usr/bin/env bash
# ipprefixtrie names the network 192.0.2.0/24 as 192.0.2.128/24 for an address in its upper half.
#
# ipprefixtrie 1.0.0 from PyPI. The longest match of an address should be named as it was inserted, with its prefix and length. The
# name has one bit more of the address than the match is long. A list of the networks in 198.51.100.7/32 should have that one; it
# has 198.51.100.7/31. Python's ipaddress refuses the names, and a firewall that cuts them to a network bans another one, or two
# addresses in place of one.
#
# Output seen:
#   longest match of 192.0.2.7: 192.0.2.0/24
#   longest match of 192.0.2.200: 192.0.2.128/24
#   longest match of 2001:db8:7::1: 2001:db8::/32
#   longest match of 2001:db8:8000::1: 2001:db8:8000::/32
#   networks in 198.51.100.0/24: 198.51.100.7/32
#   networks in 198.51.100.7/32: 198.51.100.7/31
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ipprefixtrie==1.0.0
cat >match.py <<'P'
from ipprefixtrie import IPPrefixTrie

trie = IPPrefixTrie()
for prefix in ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"]:
    trie.insert(prefix, "ban")
for address in ["192.0.2.7", "192.0.2.200", "2001:db8:7::1", "2001:db8:8000::1"]:
    print(f"longest match of {address}: {trie.get_longest(address)[0]}")
for prefix in ["198.51.100.0/24", "198.51.100.7/32"]:
    print(f"networks in {prefix}: {', '.join(name for name, _ in trie.get_orlonger(prefix))}")
P
venv/bin/python match.py | tee seen
cmp - seen <<'END'
longest match of 192.0.2.7: 192.0.2.0/24
longest match of 192.0.2.200: 192.0.2.128/24
longest match of 2001:db8:7::1: 2001:db8::/32
longest match of 2001:db8:8000::1: 2001:db8:8000::/32
networks in 198.51.100.0/24: 198.51.100.7/32
networks in 198.51.100.7/32: 198.51.100.7/31
END
