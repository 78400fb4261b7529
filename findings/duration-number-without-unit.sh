#!/usr/bin/env bash
# Three libraries read the duration "1h30" as one hour, and drop the 30 without a word.
#
# timestring 7.0.0 and parse-duration 2.1.9 from npm, durations-nlp 1.0.1, timelength 3.0.4 and pytimeparse 1.1.10 from PyPI. "1h30" should be
# 90 minutes, as people write it and parse-duration reads it, or be refused, as by pytimeparse. The other three give one hour.
# durations-nlp also reads "90" and "1:30" as no time at all. A ban or a window becomes shorter than its configuration says.
#
# Output seen, in seconds:
#   "1h30m": timestring 5400, parse-duration 5400, durations-nlp 5400, timelength 5400, pytimeparse 5400
#   "1h30": timestring 3600, parse-duration 5400, durations-nlp 3600, timelength 3600, pytimeparse refuses it
#   "1:30": timestring refuses it, parse-duration 1.03, durations-nlp 0, timelength 90, pytimeparse 90
#   "90": timestring 0.09, parse-duration 90, durations-nlp 0, timelength 90, pytimeparse refuses it
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install timestring@7.0.0 parse-duration@2.1.9 --silent --no-audit --no-fund
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check durations-nlp==1.0.1 timelength==3.0.4 pytimeparse==1.1.10
cat >read.js <<'J'
import parse from "parse-duration";
import timestring from "timestring";

const text = process.argv[2];
let seen;
try {
  seen = timestring(text, "s");
} catch {
  seen = "refuses it";
}
console.log(`timestring ${seen}, parse-duration ${Number(parse(text, "s").toFixed(5))}`);
J
cat >read.py <<'P'
import sys

import pytimeparse
from durations_nlp import Duration
from timelength import TimeLength

text = sys.argv[1]
length = TimeLength(text).result
seen = {
    "durations-nlp": Duration(text).to_seconds(),
    "timelength": length.seconds if length.success else None,
    "pytimeparse": pytimeparse.parse(text),
}
print(", ".join(f"{name} {'refuses it' if seconds is None else f'{seconds:g}'}" for name, seconds in seen.items()))
P
for text in 1h30m 1h30 1:30 90; do
  echo "\"$text\": $(node read.js "$text"), $(venv/bin/python read.py "$text")"
done | tee seen
cmp - seen <<'END'
"1h30m": timestring 5400, parse-duration 5400, durations-nlp 5400, timelength 5400, pytimeparse 5400
"1h30": timestring 3600, parse-duration 5400, durations-nlp 3600, timelength 3600, pytimeparse refuses it
"1:30": timestring refuses it, parse-duration 1.03, durations-nlp 0, timelength 90, pytimeparse 90
"90": timestring 0.09, parse-duration 90, durations-nlp 0, timelength 90, pytimeparse refuses it
END
