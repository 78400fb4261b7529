#!/usr/bin/env bash
# Five npm libraries read a comma in a number in three ways: "1,000 kB" is one kilobyte, and "1,5h" is 15 hours.
#
# filesize-parser 1.5.2, human-interval 2.0.1, durhuman 0.0.0-alpha.3, parse-duration 2.1.9 and timestring 7.0.0 from npm. "1,000" is a
# thousand in English, and "1,5" is one and a half elsewhere. A text should be read in one of these ways or be refused. The
# first three libraries take "1,000" for one, and the last two take "1,5" for 15. All of them accept the text.
#
# Output seen:
#   filesize-parser: "1000 kB" is 1024000 bytes, "1,000 kB" is 1024 bytes
#   human-interval: "1000 seconds" is 1000 s, "1,000 seconds" is 1 s
#   durhuman: "1000 seconds" is 1000 s, "1,000 seconds" is 1 s
#   parse-duration: "1.5h" is 1.5 hours, "1,5h" is 15 hours
#   timestring: "1.5h" is 1.5 hours, "1,5h" is 15 hours
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install filesize-parser@1.5.2 human-interval@2.0.1 durhuman@0.0.0-alpha.3 parse-duration@2.1.9 timestring@7.0.0 \
  --silent --no-audit --no-fund
cat >read.js <<'J'
import durhuman from "durhuman";
import size from "filesize-parser";
import interval from "human-interval";
import duration from "parse-duration";
import timestring from "timestring";

const libraries = {
  "filesize-parser": [["1000 kB", "1,000 kB"], (text) => `${size(text)} bytes`],
  "human-interval": [["1000 seconds", "1,000 seconds"], (text) => `${interval(text) / 1000} s`],
  durhuman: [["1000 seconds", "1,000 seconds"], (text) => `${durhuman(text)} s`],
  "parse-duration": [["1.5h", "1,5h"], (text) => `${duration(text, "h")} hours`],
  timestring: [["1.5h", "1,5h"], (text) => `${timestring(text, "h")} hours`],
};
for (const [library, [texts, read]] of Object.entries(libraries)) {
  console.log(`${library}: ${texts.map((text) => `"${text}" is ${read(text)}`).join(", ")}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
filesize-parser: "1000 kB" is 1024000 bytes, "1,000 kB" is 1024 bytes
human-interval: "1000 seconds" is 1000 s, "1,000 seconds" is 1 s
durhuman: "1000 seconds" is 1000 s, "1,000 seconds" is 1 s
parse-duration: "1.5h" is 1.5 hours, "1,5h" is 15 hours
timestring: "1.5h" is 1.5 hours, "1,5h" is 15 hours
END
