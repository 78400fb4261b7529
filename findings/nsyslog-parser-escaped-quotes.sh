#!/usr/bin/env bash
# nsyslog-parser takes structured data for text if a value has an escaped quote.
#
# nsyslog-parser 0.10.1 from npm, and glossy 0.1.7 beside it. RFC 5424 (section 6.3.3) writes a quote in a value as \", a closing
# bracket as \] and a backslash as \\. The reader should give the value without the escapes, as glossy does. nsyslog-parser keeps
# the backslashes of \] and \\, and finds no structured data at all for \", so that the address of a dropped packet is in the text.
#
# Output seen:
#   nsyslog-parser: [{"$id":"drop@1","rule":"plain","source":"192.0.2.7"}] text
#   glossy: {"drop@1":{"rule":"plain","source":"192.0.2.7"}}
#   nsyslog-parser: [] [drop@1 rule="with \"quotes\"" source="192.0.2.7"] text
#   glossy: {"drop@1":{"rule":"with \"quotes\"","source":"192.0.2.7"}}
#   nsyslog-parser: [{"$id":"drop@1","rule":"with a \\] bracket","source":"192.0.2.7"}] text
#   glossy: {"drop@1":{"rule":"with a ] bracket","source":"192.0.2.7"}}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install nsyslog-parser@0.10.1 glossy@0.1.7 --silent --no-audit --no-fund
cat >read.js <<'J'
const nsyslog = require("nsyslog-parser");
const { Parse: glossy } = require("glossy");
for (const rule of ["plain", 'with \\"quotes\\"', "with a \\] bracket"]) {
  const line = `<4>1 2026-10-11T22:14:15Z host kernel - - [drop@1 rule="${rule}" source="192.0.2.7"] text`;
  const { structuredData, message } = nsyslog(line);
  console.log("nsyslog-parser:", JSON.stringify(structuredData), message);
  console.log("glossy:", JSON.stringify(glossy.parse(line).structuredData));
}
J
node read.js | tee seen
cmp - seen <<'END'
nsyslog-parser: [{"$id":"drop@1","rule":"plain","source":"192.0.2.7"}] text
glossy: {"drop@1":{"rule":"plain","source":"192.0.2.7"}}
nsyslog-parser: [] [drop@1 rule="with \"quotes\"" source="192.0.2.7"] text
glossy: {"drop@1":{"rule":"with \"quotes\"","source":"192.0.2.7"}}
nsyslog-parser: [{"$id":"drop@1","rule":"with a \\] bracket","source":"192.0.2.7"}] text
glossy: {"drop@1":{"rule":"with a ] bracket","source":"192.0.2.7"}}
END
