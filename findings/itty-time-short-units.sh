#!/usr/bin/env bash
# itty-time reads "5 min" as five milliseconds and "30 sec" as thirty.
#
# itty-time 2.0.2 and ms 2.1.3 from npm. A duration with a unit that a library does not know should be refused, as itty-time does
# with "5min". With a space in front of the unit it takes the number and forgets the unit, so that the value is in milliseconds. A
# ban or a window from a configuration ends at once, and nothing is said. Only whole words are units: "5 minutes" is right.
#
# Output seen, in milliseconds:
#   "5 minutes": itty-time 300000, ms 300000
#   "5 min": itty-time 5, ms 300000
#   "5min": itty-time NaN, ms 300000
#   "30 sec": itty-time 30, ms 30000
#   "2 hrs": itty-time 2, ms 7200000
#   "1 h": itty-time 1, ms 3600000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install itty-time@2.0.2 ms@2.1.3 --silent --no-audit --no-fund
cat >read.js <<'J'
import { ms as itty } from "itty-time";
import ms from "ms";

for (const text of ["5 minutes", "5 min", "5min", "30 sec", "2 hrs", "1 h"]) {
  console.log(`"${text}": itty-time ${itty(text)}, ms ${ms(text)}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
"5 minutes": itty-time 300000, ms 300000
"5 min": itty-time 5, ms 300000
"5min": itty-time NaN, ms 300000
"30 sec": itty-time 30, ms 30000
"2 hrs": itty-time 2, ms 7200000
"1 h": itty-time 1, ms 3600000
END
