#!/usr/bin/env bash
# A default route in one trie of cidr-trie is in every other trie of the process.
#
# cidr-trie 3.1.2 from PyPI. Two tries are made, and one gets 0.0.0.0/0. The other, which got one network, should find nothing
# for an address outside of it. It finds 0.0.0.0/0 with the value of the first trie, and so does a trie that is made later. All
# other prefixes stay apart. A program that has a trie of routes and one of bans thus finds each address banned.
#
# Output seen:
#   bans before: []
#   bans after: [('0.0.0.0/0', 'route')]
#   bans after, of a listed address: [('0.0.0.0/0', 'route'), ('192.0.2.0/24', 'ban')]
#   a new trie: [('0.0.0.0/0', 'route')]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cidr-trie==3.1.2
venv/bin/python - <<'P' | tee seen
from cidr_trie import PatriciaTrie

bans, routes = PatriciaTrie(), PatriciaTrie()
bans.insert("192.0.2.0/24", "ban")
routes.insert("198.51.100.0/24", "route")
print("bans before:", bans.find_all("203.0.113.7"))
routes.insert("0.0.0.0/0", "route")
print("bans after:", bans.find_all("203.0.113.7"))
print("bans after, of a listed address:", bans.find_all("192.0.2.7"))
print("a new trie:", PatriciaTrie().find_all("203.0.113.7"))
P
cmp - seen <<'END'
bans before: []
bans after: [('0.0.0.0/0', 'route')]
bans after, of a listed address: [('0.0.0.0/0', 'route'), ('192.0.2.0/24', 'ban')]
a new trie: [('0.0.0.0/0', 'route')]
END
