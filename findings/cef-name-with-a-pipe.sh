#!/usr/bin/env bash
# Three readers of CEF lose or change the name of an event that has an escaped bar, or an equals sign.
#
# pycef 1.11 and jc 1.26.1 from PyPI, nsyslog-parser 0.10.1 from npm. The Common Event Format escapes "|" as "\|" in the header and
# "=" as "\=" in the extension; an equals sign in the header needs no escape. The event "udp | 53" of severity 5 from 192.0.2.7
# should be read as it is. For pycef, and jc which has its reader from it, the name is empty, there is no severity, and the source
# is under a key that is made of the rest of the header. nsyslog-parser keeps the backslash, and ends the message at "\=". Rules
# that look for the source address of a firewall's event find none.
#
# Output seen:
#   pycef: {'Name': 'udp 53', 'Severity': '5', 'src': '192.0.2.7', 'msg': 'a b'}
#   jc: {'name': 'udp 53', 'agentSeverity': '5', 'src': '192.0.2.7', 'msg': 'a b'}
#   pycef: {'Name': '', '53|5|src': '192.0.2.7', 'msg': 'a b'}
#   jc: {'name': '', '53_5_src': '192.0.2.7', 'msg': 'a b'}
#   pycef: {'Name': '', '53|5|src': '192.0.2.7', 'msg': 'a \\= b'}
#   jc: {'name': '', '53_5_src': '192.0.2.7', 'msg': 'a = b'}
#   nsyslog-parser: {"name":"udp 53","severity":"5","src":"192.0.2.7","msg":"a b"}
#   nsyslog-parser: {"name":"udp \\| 53","severity":"5","src":"192.0.2.7","msg":"a b"}
#   nsyslog-parser: {"name":"port=53","severity":"5","src":"192.0.2.7","msg":"a","\\":" b"}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pycef==1.11 jc==1.26.1
echo '{ "private": true }' >package.json
npm install nsyslog-parser@0.10.1 --silent --no-audit --no-fund
cat >events <<'E'
CEF:0|firewall|limiter|1|100|udp 53|5|src=192.0.2.7 msg=a b
CEF:0|firewall|limiter|1|100|udp \| 53|5|src=192.0.2.7 msg=a b
CEF:0|firewall|limiter|1|100|port=53|5|src=192.0.2.7 msg=a \= b
E
cat >read.py <<'P'
import jc
import pycef

HEADER = {"DeviceVendor", "DeviceProduct", "DeviceVersion", "DeviceEventClassID", "DeviceName", "CEFVersion", "DeviceSeverity"}
DERIVED = ("device", "CEF", "agentSeverityS", "agentSeverityN")
for line in open("events"):
    line = line.strip()
    print("pycef:", {key: value for key, value in pycef.parse(line).items() if key not in HEADER})
    event = jc.parse("cef", line)[0]
    print("jc:", {key: value for key, value in event.items() if not key.startswith(DERIVED)})
P
cat >read.js <<'J'
const parse = require("nsyslog-parser");
for (const line of require("fs").readFileSync("events", "utf8").trim().split("\n")) {
  const { cef, fields } = parse(`<132>Oct 11 22:14:15 192.0.2.1 ${line}`);
  console.log("nsyslog-parser:", JSON.stringify({ name: cef.name, severity: cef.severity, ...fields }));
}
J
{
  venv/bin/python read.py
  node read.js
} | tee seen
cmp - seen <<'END'
pycef: {'Name': 'udp 53', 'Severity': '5', 'src': '192.0.2.7', 'msg': 'a b'}
jc: {'name': 'udp 53', 'agentSeverity': '5', 'src': '192.0.2.7', 'msg': 'a b'}
pycef: {'Name': '', '53|5|src': '192.0.2.7', 'msg': 'a b'}
jc: {'name': '', '53_5_src': '192.0.2.7', 'msg': 'a b'}
pycef: {'Name': '', '53|5|src': '192.0.2.7', 'msg': 'a \\= b'}
jc: {'name': '', '53_5_src': '192.0.2.7', 'msg': 'a = b'}
nsyslog-parser: {"name":"udp 53","severity":"5","src":"192.0.2.7","msg":"a b"}
nsyslog-parser: {"name":"udp \\| 53","severity":"5","src":"192.0.2.7","msg":"a b"}
nsyslog-parser: {"name":"port=53","severity":"5","src":"192.0.2.7","msg":"a","\\":" b"}
END
