#!/usr/bin/env bash
# The Python library netflow gives the bytes of a flow's answer as the bytes of the flow.
#
# netflow 0.12.2 from PyPI. RFC 5103 puts both directions of a flow into one IPFIX record: the counters of the reverse direction
# have the numbers of the forward ones, with the enterprise number 29305. A client sends 600 bytes and gets 90,000. The library
# should keep the two apart. It reads the enterprise number and does not look at it, and the counter that comes later in the record
# replaces the other. A client that loads a large file looks like one that floods.
#
# Output seen:
#   one direction: [('octetDeltaCount', 600), ('sourceIPv4Address', 3221225991)]
#   both directions: [('octetDeltaCount', 90000), ('sourceIPv4Address', 3221225991)]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netflow==0.12.2
cat >read.py <<'P'
import struct

import netflow

REVERSE = struct.pack(">I", 29305)
ADDRESS = struct.pack(">HH", 8, 4), bytes([192, 0, 2, 7])
FORWARD = struct.pack(">HH", 1, 4), struct.pack(">I", 600)
BACKWARD = struct.pack(">HH", 0x8001, 4) + REVERSE, struct.pack(">I", 90_000)


def message(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(">HHIII", 10, 20 + len(body), 1_700_000_000, 1, 1) + struct.pack(">HH", kind, 4 + len(body)) + body


for name, fields in {"one direction": [ADDRESS, FORWARD], "both directions": [ADDRESS, FORWARD, BACKWARD]}.items():
    templates = {"netflow": {}, "ipfix": {}}
    template = struct.pack(">HH", 256, len(fields)) + b"".join(field for field, _ in fields)
    netflow.parse_packet(message(2, template), templates)
    (flow,) = netflow.parse_packet(message(256, b"".join(value for _, value in fields)), templates).flows
    print(f"{name}: {sorted(flow.data.items())}")
P
venv/bin/python read.py | tee seen
cmp - seen <<'END'
one direction: [('octetDeltaCount', 600), ('sourceIPv4Address', 3221225991)]
both directions: [('octetDeltaCount', 90000), ('sourceIPv4Address', 3221225991)]
END
