#!/usr/bin/env bash
# longest-prefix-match and lib_cidr_trie accept a default route and never find it.
#
# longest-prefix-match 1.3.1 from npm and lib_cidr_trie 1.2.11 from PyPI. Each trie gets 0.0.0.0/0 and 192.0.2.0/24. An address
# outside 192.0.2.0/24 should match 0.0.0.0/0, or the trie should refuse a prefix of length 0. Both libraries accept the prefix
# and find nothing, also for 0.0.0.0/0 itself. Two halves of length 1 are found. A value "for all others" never applies.
#
# Output seen:
#   longest-prefix-match, 0.0.0.0/0: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has nothing
#   longest-prefix-match, 0.0.0.0/1 and 128.0.0.0/1: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has 128.0.0.0/1
#   lib_cidr_trie, 0.0.0.0/0: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has nothing
#   lib_cidr_trie, 0.0.0.0/1 and 128.0.0.0/1: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has 128.0.0.0/1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install longest-prefix-match@1.3.1 --silent --no-audit --no-fund
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check lib_cidr_trie==1.2.11
cat >match.js <<'J'
const Trie = require("longest-prefix-match");
for (const others of [["0.0.0.0/0"], ["0.0.0.0/1", "128.0.0.0/1"]]) {
  const trie = new (Trie.default ?? Trie)();
  for (const prefix of ["192.0.2.0/24", ...others]) trie.addPrefix(prefix, prefix);
  const seen = ["192.0.2.7", "203.0.113.1"].map((address) => `${address} has ${trie.getMatch(`${address}/32`)[0] ?? "nothing"}`);
  console.log(`longest-prefix-match, ${others.join(" and ")}: ${seen.join(", ")}`);
}
J
cat >match.py <<'P'
from ipaddress import IPv4Network
from lib_cidr_trie import IPv4CIDRTrie

for others in [["0.0.0.0/0"], ["0.0.0.0/1", "128.0.0.0/1"]]:
    trie = IPv4CIDRTrie()
    for prefix in ["192.0.2.0/24", *others]:
        trie.insert(IPv4Network(prefix))
    seen = []
    for address in ["192.0.2.7", "203.0.113.1"]:
        node = trie.get_most_specific_trie_supernet(IPv4Network(address))
        seen.append(f"{address} has {node.prefix if node else 'nothing'}")
    print(f"lib_cidr_trie, {' and '.join(others)}: {', '.join(seen)}")
P
{ node match.js && venv/bin/python match.py; } | tee seen
cmp - seen <<'END'
longest-prefix-match, 0.0.0.0/0: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has nothing
longest-prefix-match, 0.0.0.0/1 and 128.0.0.0/1: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has 128.0.0.0/1
lib_cidr_trie, 0.0.0.0/0: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has nothing
lib_cidr_trie, 0.0.0.0/1 and 128.0.0.0/1: 192.0.2.7 has 192.0.2.0/24, 203.0.113.1 has 128.0.0.0/1
END
