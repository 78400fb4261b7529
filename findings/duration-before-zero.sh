#!/usr/bin/env bash
# enhanced-ms and iso8601-duration read five minutes ago, "-5m" and "-PT5M", as five minutes.
#
# enhanced-ms 5.0.0, ms 2.1.3, iso8601-duration 2.1.4 and duration-fns 3.0.2 from npm. A duration with a minus sign should be
# negative, as in ms and duration-fns, or be refused. enhanced-ms and iso8601-duration leave the sign out. The rest of a ban that
# ended five minutes ago becomes five minutes to come.
#
# Output seen, in seconds:
#   "5m": enhanced-ms 300, ms 300
#   "-5m": enhanced-ms 300, ms -300
#   "PT5M": iso8601-duration 300, duration-fns 300
#   "-PT5M": iso8601-duration 300, duration-fns -300
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install enhanced-ms@5.0.0 ms@2.1.3 iso8601-duration@2.1.4 duration-fns@3.0.2 --silent --no-audit --no-fund
cat >read.js <<'J'
import * as durations from "duration-fns";
import { ms as enhanced } from "enhanced-ms";
import * as iso from "iso8601-duration";
import ms from "ms";

for (const text of ["5m", "-5m"]) console.log(`"${text}": enhanced-ms ${enhanced(text) / 1000}, ms ${ms(text) / 1000}`);
for (const text of ["PT5M", "-PT5M"]) {
  const seconds = iso.toSeconds(iso.parse(text));
  console.log(`"${text}": iso8601-duration ${seconds}, duration-fns ${durations.toSeconds(text)}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
"5m": enhanced-ms 300, ms 300
"-5m": enhanced-ms 300, ms -300
"PT5M": iso8601-duration 300, duration-fns 300
"-PT5M": iso8601-duration 300, duration-fns -300
END
