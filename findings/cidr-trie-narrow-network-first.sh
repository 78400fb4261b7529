#!/usr/bin/env bash
# cidr-trie loses the networks inside a wider one, depending on the order in which they are inserted.
#
# cidr-trie 3.1.2 from PyPI. A trie gets 192.0.2.0/24, 192.0.2.0/25 and 192.0.2.7/32, and find_all("192.0.2.7") should return
# all three, in whatever order they were inserted. If the /32 is inserted first, only the second one is found, and nothing is
# said. A list keeps all its networks if the wider ones come first, as in a sorted list; a list in the order of its bans may
# not.
#
# Output seen:
#   24 25 32: 192.0.2.0/24 192.0.2.0/25 192.0.2.7/32
#   32 25 24: 192.0.2.0/25
#   32 24 25: 192.0.2.0/24
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cidr-trie==3.1.2
venv/bin/python - <<'P' | tee seen
from cidr_trie import PatriciaTrie

NETWORKS = {24: "192.0.2.0/24", 25: "192.0.2.0/25", 32: "192.0.2.7/32"}
for order in [(24, 25, 32), (32, 25, 24), (32, 24, 25)]:
    trie = PatriciaTrie()
    for length in order:
        trie.insert(NETWORKS[length], length)
    print(f"{' '.join(map(str, order))}:", *(network for network, _ in trie.find_all("192.0.2.7")))
P
cmp - seen <<'END'
24 25 32: 192.0.2.0/24 192.0.2.0/25 192.0.2.7/32
32 25 24: 192.0.2.0/25
32 24 25: 192.0.2.0/24
END
