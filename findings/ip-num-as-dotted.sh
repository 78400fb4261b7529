#!/usr/bin/env bash
# ip-num reads the AS number "AS1.10" as AS1, and "1.10" as AS65546.
#
# ip-num 1.6.2 from npm. RFC 5396 writes the number of an autonomous system above 65,535 as two numbers with a dot: 1.10 is
# 65,536 + 10. ip-num writes this form, and reads it, but with "AS" in front, as in many lists and tools, it drops the dot and what
# follows. A list of networks to block by origin blocks another one.
#
# Output seen:
#   "65546": AS65546, dotted 1.10
#   "AS65546": AS65546, dotted 1.10
#   "1.10": AS65546, dotted 1.10
#   "AS1.10": AS1, dotted 0.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install ip-num@1.6.2 --silent --no-audit --no-fund
cat >read.js <<'J'
const { Asn } = require("ip-num");
for (const text of ["65546", "AS65546", "1.10", "AS1.10"]) {
  const number = Asn.fromString(text);
  console.log(`"${text}": ${number.toString()}, dotted ${number.toASDotPlus()}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
"65546": AS65546, dotted 1.10
"AS65546": AS65546, dotted 1.10
"1.10": AS65546, dotted 1.10
"AS1.10": AS1, dotted 0.1
END
