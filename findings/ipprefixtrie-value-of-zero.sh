#!/usr/bin/env bash
# ipprefixtrie keeps an empty dict in the place of the value 0 of a network.
#
# ipprefixtrie 1.0.0, py-radix 1.1.0 and pytricia 1.3.0 from PyPI. A trie of limits gives each network a number of requests, and 0
# forbids all. The value should come back as it was inserted, as with the other libraries. ipprefixtrie returns {} for 0, and
# also for False, "" and an empty list. Code that compares with 0 finds no network that is forbidden.
#
# Output seen:
#   5: ipprefixtrie 5, py-radix 5, pytricia 5
#   0: ipprefixtrie {}, py-radix 0, pytricia 0
#   False: ipprefixtrie {}, py-radix False, pytricia False
#   '': ipprefixtrie {}, py-radix '', pytricia ''
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ipprefixtrie==1.0.0 py-radix==1.1.0 pytricia==1.3.0
cat >match.py <<'P'
import pytricia
import radix
from ipprefixtrie import IPPrefixTrie

trie, tree, tricia = IPPrefixTrie(), radix.Radix(), pytricia.PyTricia()
for value in [5, 0, False, ""]:
    trie.insert("192.0.2.0/24", value)
    tree.add("192.0.2.0/24").data["value"] = value
    tricia.insert("192.0.2.0/24", value)
    found = trie.get_longest("192.0.2.7")[1], tree.search_best("192.0.2.7").data["value"], tricia["192.0.2.7"]
    print("{!r}: ipprefixtrie {!r}, py-radix {!r}, pytricia {!r}".format(value, *found))
P
venv/bin/python match.py | tee seen
cmp - seen <<'END'
5: ipprefixtrie 5, py-radix 5, pytricia 5
0: ipprefixtrie {}, py-radix 0, pytricia 0
False: ipprefixtrie {}, py-radix False, pytricia False
'': ipprefixtrie {}, py-radix '', pytricia ''
END
