#!/usr/bin/env bash
# glossy gives a syslog message of priority 0 no facility and no severity.
#
# glossy 0.1.7 from npm. The number in front of a message is eight times the facility plus the severity: 0 is the kernel in an
# emergency, the most severe of all (RFC 5424, section 6.2.1). Its facility should be "kern" and its severity "emerg", as for the
# neighbours. glossy leaves out all four fields, so that a filter by severity passes over what it should find first.
#
# Output seen:
#   <0>: facility undefined, severity undefined, text DROP
#   <1>: facility kern, severity alert, text DROP
#   <4>: facility kern, severity warn, text DROP
#   <8>: facility user, severity emerg, text DROP
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install glossy@0.1.7 --silent --no-audit --no-fund
cat >read.js <<'J'
const { Parse } = require("glossy");
for (const priority of [0, 1, 4, 8]) {
  const { facility, severity, message } = Parse.parse(`<${priority}>1 2026-10-11T22:14:15Z router kernel - - - DROP`);
  console.log(`<${priority}>: facility ${facility}, severity ${severity}, text ${message}`);
}
J
node read.js | tee seen
cmp - seen <<'END'
<0>: facility undefined, severity undefined, text DROP
<1>: facility kern, severity alert, text DROP
<4>: facility kern, severity warn, text DROP
<8>: facility user, severity emerg, text DROP
END
