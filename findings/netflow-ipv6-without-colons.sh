#!/usr/bin/env bash
# node-netflowv9 gives IPv4 addresses with dots, and IPv6 addresses as 32 digits without colons.
#
# node-netflowv9 0.2.16 from npm, and node's own check for addresses. A flow of 2001:db8::7 should have this text, or its long form,
# as a flow of 192.0.2.7 has its text. The library gives the digits alone, which no reader of addresses takes: a list, a database of
# countries or a firewall's set refuses it, or finds nothing.
#
# Output seen:
#   192.0.2.7: version 4
#   20010db8000000000000000000000007: version unknown
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install node-netflowv9@0.2.16 --silent --no-audit --no-fund
cat >read.js <<'J'
const Collector = require("node-netflowv9");
const { isIP } = require("net");
const port = 20000 + Math.floor(Math.random() * 10000);
const collector = new Collector({ port, host: "127.0.0.1" });
const socket = require("dgram").createSocket("udp4");
const set = (kind, hex) => {
  const body = Buffer.from(hex, "hex");
  const head = Buffer.alloc(24);
  [9, 1].forEach((value, index) => head.writeUInt16BE(value, 2 * index));
  [kind, 4 + body.length].forEach((value, index) => head.writeUInt16BE(value, 20 + 2 * index));
  return Buffer.concat([head, body]);
};
// A template of the two source addresses, and one record.
const packets = [set(0, "010000020008" + "0004001b0010"), set(256, "c0000207" + "20010db8000000000000000000000007")];
collector.on("data", ({ flows: [flow] }) => {
  for (const text of [flow.ipv4_src_addr, flow.ipv6_src_addr]) console.log(`${text}: version ${isIP(text) || "unknown"}`);
  process.exit();
});
const send = () => packets.length && socket.send(packets.shift(), port, "127.0.0.1", () => setTimeout(send, 300));
socket.bind(0, "127.0.0.1", () => setTimeout(send, 500));
J
timeout 20 node read.js | tee seen
cmp - seen <<'END'
192.0.2.7: version 4
20010db8000000000000000000000007: version unknown
END
