#!/usr/bin/env bash
# A tree of pysubnettree says that it has a network of which it has one address.
#
# pysubnettree 0.38.1 from PyPI. The tree holds 192.0.2.0/32, and is asked for 192.0.2.0/24. The network is on no prefix of the
# tree, so "in" should be False, as with py-radix 1.1.0. It is True: the tree looks up the first address and ignores the length of
# what it is asked for. A network that begins with a listed address thus counts as listed.
#
# Output seen:
#   192.0.2.0/24: py-radix: None, pysubnettree: 192.0.2.0/32
#   0.0.0.0/0: py-radix: None, pysubnettree: 0.0.0.0/8
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysubnettree==0.38.1 py-radix==1.1.0
venv/bin/python - <<'P' | tee seen
import radix
import SubnetTree

tree = SubnetTree.SubnetTree()
other = radix.Radix()
for prefix in ["192.0.2.0/32", "0.0.0.0/8"]:
    tree[prefix] = prefix
    other.add(prefix)
for network in ["192.0.2.0/24", "0.0.0.0/0"]:
    print(f"{network}: py-radix: {other.search_best(network)}, pysubnettree: {tree[network] if network in tree else None}")
P
cmp - seen <<'END'
192.0.2.0/24: py-radix: None, pysubnettree: 192.0.2.0/32
0.0.0.0/0: py-radix: None, pysubnettree: 0.0.0.0/8
END
