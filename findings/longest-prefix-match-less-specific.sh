#!/usr/bin/env bash
# longest-prefix-match gives the widest prefix of all as the less specific one of a match.
#
# longest-prefix-match 1.3.1 from npm. "getLessSpecificMatch" of 192.0.2.0/28 should give the next wider prefix around the longest match,
# here 192.0.2.0/24 around the /26, as its README shows with two prefixes. With more prefixes it gives the widest one. A search
# for the origin or the owner of a network ends at the wrong one, as soon as the table has a wide aggregate.
#
# Output seen, the longest match and the less specific one of 192.0.2.0/28:
#   /26 /24: 192.0.2.0/26, 192.0.2.0/24
#   /26 /24 /16: 192.0.2.0/26, 192.0.0.0/16
#   /26 /24 /16 /8: 192.0.2.0/26, 192.0.0.0/8
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install longest-prefix-match@1.3.1 --silent --no-audit --no-fund
cat >match.js <<'J'
const Trie = require("longest-prefix-match");
const prefixes = ["192.0.2.0/26", "192.0.2.0/24", "192.0.0.0/16", "192.0.0.0/8"];
for (let count = 2; count <= prefixes.length; count += 1) {
  const trie = new (Trie.default ?? Trie)();
  for (const prefix of prefixes.slice(0, count)) trie.addPrefix(prefix, prefix);
  const lengths = prefixes.slice(0, count).map((prefix) => `/${prefix.split("/")[1]}`);
  console.log(`${lengths.join(" ")}: ${trie.getMatch("192.0.2.0/28")}, ${trie.getLessSpecificMatch("192.0.2.0/28")}`);
}
J
node match.js | tee seen
cmp - seen <<'END'
/26 /24: 192.0.2.0/26, 192.0.2.0/24
/26 /24 /16: 192.0.2.0/26, 192.0.0.0/16
/26 /24 /16 /8: 192.0.2.0/26, 192.0.0.0/8
END
