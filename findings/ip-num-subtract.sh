#!/usr/bin/env bash
# ip-num subtracts a range of addresses by making the first range longer.
#
# ip-num 1.6.2 from npm. 192.0.2.0-192.0.2.255 less 192.0.2.100-192.0.2.255 should be 192.0.2.0-192.0.2.99, which the method
# "difference" gives. The method "subtract" gives all from the first address of the one range to the last address of the other. An
# allow list from which a range is taken away still allows the range, and may allow more than before.
#
# Output seen:
#   difference: 192.0.2.0-192.0.2.99
#   subtract, from 192.0.2.0-192.0.2.255: 192.0.2.0-192.0.2.255
#   subtract, from 192.0.2.0-192.0.2.200: 192.0.2.0-192.0.2.255
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install ip-num@1.6.2 --silent --no-audit --no-fund
cat >subtract.js <<'J'
const { RangedSet } = require("ip-num");
const range = (text) => RangedSet.fromRangeString(text);
const difference = range("192.0.2.0-192.0.2.255").difference(range("192.0.2.100-192.0.2.255"));
console.log("difference:", difference.map((part) => part.toRangeString()).join(" "));
for (const last of ["255", "200"]) {
  const rest = range(`192.0.2.0-192.0.2.${last}`).subtract(range("192.0.2.100-192.0.2.255"));
  console.log(`subtract, from 192.0.2.0-192.0.2.${last}:`, rest.toRangeString());
}
J
node subtract.js | tee seen
cmp - seen <<'END'
difference: 192.0.2.0-192.0.2.99
subtract, from 192.0.2.0-192.0.2.255: 192.0.2.0-192.0.2.255
subtract, from 192.0.2.0-192.0.2.200: 192.0.2.0-192.0.2.255
END
