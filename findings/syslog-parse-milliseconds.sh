#!/usr/bin/env bash
# syslog-parse gives a message the milliseconds of the moment at which it is read.
#
# syslog-parse 2.0.0 from npm. Messages in the older form (RFC 3164) have whole seconds. The same line should always have one
# time, with no fraction. syslog-parse takes the present time and replaces its day and seconds: the milliseconds stay. Of two
# messages in one second the later one can have the earlier time, and the time of a line cannot be a key to find it again.
#
# Output seen, of one line that is read 20 times within some 200 ms:
#   seconds: 10-11T22:14:15
#   one time for one line: false, all without a fraction: false
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install syslog-parse@2.0.0 --silent --no-audit --no-fund
cat >read.js <<'J'
import module from "syslog-parse";

const parse = module.default ?? module;
const times = new Set();
for (let read = 0; read < 20; read++) {
  times.add(parse("<34>Oct 11 22:14:15 host sshd[7]: Failed password").time.getTime());
  await new Promise((resolve) => setTimeout(resolve, 11));
}
const seconds = new Set([...times].map((time) => new Date(time).toISOString().slice(5, 19)));
console.log(`seconds: ${[...seconds]}`);
const whole = [...times].every((time) => time % 1000 === 0);
console.log(`one time for one line: ${times.size === 1}, all without a fraction: ${whole}`);
J
node read.js | tee seen
cmp - seen <<'END'
seconds: 10-11T22:14:15
one time for one line: false, all without a fraction: false
END
