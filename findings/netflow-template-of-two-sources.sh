#!/usr/bin/env bash
# Two NetFlow readers take the address of a record for its bytes if two sources of one exporter number their templates alike.
#
# netflow 0.12.2 from PyPI, node-netflowv9 0.2.16 from npm, nfdump 1.7.1-2+deb12u1 of Debian 12. RFC 3954 (section 5.2) makes the
# number of a template unique per source ID: one router with two line cards sends two templates 256. Here source 1 orders its fields
# bytes, packets, address, and source 2 the other way round. nfdump reads both. The two libraries keep the template that came last
# for both sources: 600 bytes from 192.0.2.7 become 3,221,225,991 bytes from 0.0.2.88. A limit that follows such flows blocks an
# address that sent nothing.
#
# Output seen:
#   netflow, source 1: 3221225991 bytes from 0.0.2.88
#   netflow, source 2: 600 bytes from 192.0.2.7
#   node-netflowv9, source 1: 3221225991 bytes from 0.0.2.88
#   node-netflowv9, source 2: 600 bytes from 192.0.2.7
#   nfdump: 600 bytes from 192.0.2.7
#   nfdump: 600 bytes from 192.0.2.7
set -euo pipefail
folder=$(mktemp -d)
collector=
trap '[ -z "$collector" ] || kill "$collector"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nfdump=1.7.1-2+deb12u1 libpcap0.8=1.10.3-1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netflow==0.12.2
echo '{ "private": true }' >package.json
npm install node-netflowv9@0.2.16 --silent --no-audit --no-fund
cat >packets.py <<'P'
import struct

ORDERS = {1: [(1, 4), (2, 4), (8, 4)], 2: [(8, 4), (2, 4), (1, 4)]}
VALUES = {1: struct.pack(">I", 600), 2: struct.pack(">I", 10), 8: bytes([192, 0, 2, 7])}


def packet(source, sequence, kind, body):
    header = struct.pack(">HHIIII", 9, 1, 1000, 1_700_000_000, sequence, source)
    return header + struct.pack(">HH", kind, len(body) + 4) + body


def template(source):
    fields = ORDERS[source]
    return packet(source, 1, 0, struct.pack(">HH", 256, len(fields)) + b"".join(struct.pack(">HH", *field) for field in fields))


def record(source):
    return packet(source, 2, 256, b"".join(VALUES[kind] for kind, _ in ORDERS[source]))


PACKETS = [template(1), template(2), record(1), record(2)]
P
cat >read.py <<'P'
import json

import netflow
from packets import PACKETS

json.dump([packet.hex() for packet in PACKETS], open("packets.json", "w"))
templates = {"netflow": {}, "ipfix": {}}
for packet in PACKETS:
    export = netflow.parse_packet(packet, templates)
    for flow in export.flows:
        print(f"netflow, source {export.header.source_id}: {flow.data['IN_BYTES']} bytes from {flow.data['IPV4_SRC_ADDR']}")
P
cat >read.js <<'J'
const Collector = require("node-netflowv9");
const packets = require("./packets.json").map((text) => Buffer.from(text, "hex"));
const port = 20000 + Math.floor(Math.random() * 10000);
const collector = new Collector({ port, host: "127.0.0.1" });
const socket = require("dgram").createSocket("udp4");
socket.bind(0, "127.0.0.1", () => {
  let next = 0;
  const send = () => {
    if (next < packets.length) socket.send(packets[next++], port, "127.0.0.1", () => setTimeout(send, 200));
  };
  setTimeout(send, 500);
});
let seen = 0;
collector.on("data", ({ header, flows: [flow] }) => {
  console.log(`node-netflowv9, source ${header.sourceId}: ${flow.in_bytes} bytes from ${flow.ipv4_src_addr}`);
  if (++seen === 2) process.exit();
});
J
cat >send.py <<'P'
import socket, sys, time

from packets import PACKETS

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for packet in PACKETS:
        sender.sendto(packet, ("127.0.0.1", int(sys.argv[1])))
        time.sleep(0.1)
P
nfdump_reads() {
  local port=$((20000 + RANDOM % 10000))
  mkdir flows
  root/usr/bin/nfcapd -b 127.0.0.1 -p "$port" -l flows >log 2>&1 &
  collector=$!
  for _ in $(seq 50); do grep -q "Startup" log && break || sleep 0.1; done
  python3 send.py "$port"
  kill "$collector"
  wait "$collector" || true
  collector=
  root/usr/bin/nfdump -q -R flows -o 'fmt:nfdump: %byt bytes from %sa' | tr -s ' '
}
{
  venv/bin/python read.py
  timeout 20 node read.js
  nfdump_reads
} | tee seen
cmp - seen <<'END'
netflow, source 1: 3221225991 bytes from 0.0.2.88
netflow, source 2: 600 bytes from 192.0.2.7
node-netflowv9, source 1: 3221225991 bytes from 0.0.2.88
node-netflowv9, source 2: 600 bytes from 192.0.2.7
nfdump: 600 bytes from 192.0.2.7
nfdump: 600 bytes from 192.0.2.7
END
