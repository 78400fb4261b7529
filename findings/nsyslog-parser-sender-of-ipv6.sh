#!/usr/bin/env bash
# nsyslog-parser finds no host and no program in a message whose sender is an IPv6 address.
#
# nsyslog-parser 0.10.1 from npm, and glossy 0.1.7 beside it. RFC 5424 (section 6.2.4) allows an IPv6 address as the host name, and
# devices without a name send it. Both formats of syslog should give the host 2001:db8::7 as they give 192.0.2.7. nsyslog-parser
# gives an empty host, no program, and all of it as the text. Drops that a firewall reports cannot be counted per firewall then.
#
# Output seen:
#   nsyslog-parser: host "192.0.2.7", program "kernel", text "DROP"
#   glossy: host "192.0.2.7"
#   nsyslog-parser: host "192.0.2.7", program "kernel", text "DROP"
#   glossy: host "192.0.2.7"
#   nsyslog-parser: host "", program "", text "2001:db8::7 kernel: DROP"
#   glossy: host "2001:db8::7"
#   nsyslog-parser: host "", program "", text "2001:db8::7 kernel - - - DROP"
#   glossy: host "2001:db8::7"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install nsyslog-parser@0.10.1 glossy@0.1.7 --silent --no-audit --no-fund
cat >read.js <<'J'
const nsyslog = require("nsyslog-parser");
const { Parse: glossy } = require("glossy");
for (const host of ["192.0.2.7", "2001:db8::7"]) {
  for (const line of [`<4>Oct 11 22:14:15 ${host} kernel: DROP`, `<4>1 2026-10-11T22:14:15Z ${host} kernel - - - DROP`]) {
    const { host: sender, appName, message } = nsyslog(line);
    console.log(`nsyslog-parser: host "${sender}", program "${appName ?? ""}", text "${message}"`);
    console.log(`glossy: host "${glossy.parse(line).host}"`);
  }
}
J
node read.js | tee seen
cmp - seen <<'END'
nsyslog-parser: host "192.0.2.7", program "kernel", text "DROP"
glossy: host "192.0.2.7"
nsyslog-parser: host "192.0.2.7", program "kernel", text "DROP"
glossy: host "192.0.2.7"
nsyslog-parser: host "", program "", text "2001:db8::7 kernel: DROP"
glossy: host "2001:db8::7"
nsyslog-parser: host "", program "", text "2001:db8::7 kernel - - - DROP"
glossy: host "2001:db8::7"
END
