#!/usr/bin/env bash
# netparser summarizes the two halves of all addresses to the first half.
#
# netparser 1.9.0 from npm. The summary of 0.0.0.0/1 and 128.0.0.0/1 should be 0.0.0.0/0, or the two networks, and that of ::/1 and
# 8000::/1 likewise. The second half is lost without a word. Two halves are a usual way to write "all addresses" for software that
# refuses 0.0.0.0/0, and a list that goes through the summary has no address from 128.0.0.0 on.
#
# Output seen:
#   0.0.0.0/2 64.0.0.0/2: 0.0.0.0/1
#   0.0.0.0/1 128.0.0.0/1: 0.0.0.0/1
#   0.0.0.0/2 64.0.0.0/2 128.0.0.0/1: 0.0.0.0/1
#   ::/1 8000::/1: ::/1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install netparser@1.9.0 --silent --no-audit --no-fund
cat >summarize.js <<'J'
const { summarize } = require("netparser");
for (const networks of [
  ["0.0.0.0/2", "64.0.0.0/2"],
  ["0.0.0.0/1", "128.0.0.0/1"],
  ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/1"],
  ["::/1", "8000::/1"],
]) {
  console.log(`${networks.join(" ")}: ${summarize(networks).join(" ")}`);
}
J
node summarize.js | tee seen
cmp - seen <<'END'
0.0.0.0/2 64.0.0.0/2: 0.0.0.0/1
0.0.0.0/1 128.0.0.0/1: 0.0.0.0/1
0.0.0.0/2 64.0.0.0/2 128.0.0.0/1: 0.0.0.0/1
::/1 8000::/1: ::/1
END
