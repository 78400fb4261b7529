#!/usr/bin/env bash
# node-netflowv9 gives a sampling interval of 16,484 for one packet in 100.
#
# node-netflowv9 0.2.16 from npm. In the header of NetFlow version 5 the two upper bits of the sampling field are the mode, and
# only the other 14 are the interval, as Cisco documents the format. A router that samples one packet in 100 in mode 1 sends
# 0x4064. The library should give 100, and perhaps the mode beside it. It gives the whole field under the name
# "sampling_interval". A program that multiplies the bytes by it, as is needed for a rate, gets 165 times too much.
#
# Output seen:
#   no sampling: sampling_interval 0
#   1 in 100, mode 1: sampling_interval 16484
#   1 in 100, mode 2: sampling_interval 32868
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install node-netflowv9@0.2.16 --silent --no-audit --no-fund
cat >read.js <<'J'
const Collector = require("node-netflowv9");
const port = 20000 + Math.floor(Math.random() * 10000);
const collector = new Collector({ port, host: "127.0.0.1" });
const socket = require("dgram").createSocket("udp4");
const FIELDS = { "no sampling": 0x0000, "1 in 100, mode 1": 0x4064, "1 in 100, mode 2": 0x8064 };
const names = Object.keys(FIELDS);
const send = () => {
  const packet = Buffer.alloc(24 + 48);
  packet.writeUInt16BE(5, 0);
  packet.writeUInt16BE(1, 2);
  packet.writeUInt16BE(FIELDS[names[0]], 22);
  socket.send(packet, port, "127.0.0.1");
};
collector.on("data", ({ header }) => {
  console.log(`${names.shift()}: sampling_interval ${header.sampling_interval}`);
  if (names.length === 0) process.exit();
  send();
});
socket.bind(0, "127.0.0.1", () => setTimeout(send, 500));
J
timeout 20 node read.js | tee seen
cmp - seen <<'END'
no sampling: sampling_interval 0
1 in 100, mode 1: sampling_interval 16484
1 in 100, mode 2: sampling_interval 32868
END
