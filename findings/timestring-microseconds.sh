#!/usr/bin/env bash
# timestring reads "100 µs" as 100 seconds, and "-5m" as five minutes.
#
# timestring 7.0.0 and parse-duration 2.1.9 from npm. Both should read a tenth of a millisecond and a negative time, as
# parse-duration does, or refuse them, as timestring refuses "100 xs". timestring cuts off the letter that it does not know, and the
# minus sign. A window or a pause from a configuration in microseconds becomes a million times longer.
#
# Output seen, in milliseconds:
#   "500ms": timestring 500, parse-duration 500
#   "100 µs": timestring 100000, parse-duration 0.1
#   "100 xs": timestring refuses it, parse-duration null
#   "-5m": timestring 300000, parse-duration -300000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install timestring@7.0.0 parse-duration@2.1.9 --silent --no-audit --no-fund
cat >read.js <<'J'
import parse from "parse-duration";
import timestring from "timestring";

for (const text of ["500ms", "100 µs", "100 xs", "-5m"]) {
  let seen;
  try {
    seen = timestring(text, "ms");
  } catch {
    seen = "refuses it";
  }
  console.log(`"${text}": timestring ${seen}, parse-duration ${parse(text)}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
"500ms": timestring 500, parse-duration 500
"100 µs": timestring 100000, parse-duration 0.1
"100 xs": timestring refuses it, parse-duration null
"-5m": timestring 300000, parse-duration -300000
END
