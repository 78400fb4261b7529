#!/usr/bin/env bash
# The Python library netflow refuses a whole IPFIX packet if its records have a field of variable length.
#
# netflow 0.12.2 and netflume 0.6.0 from PyPI. A template may give a field the length 65535: each record then says the length
# itself (RFC 7011, section 7), as names of users and applications need it. Addresses, packets and bytes should be read as
# without it, as netflume does. netflow raises an error about padding, and all flows of the packet are lost. A count of a
# flood is then too small by the exporters that send such a field.
#
# Output seen:
#   netflow: fixed 1280 bytes of 192.0.2.7, variable PaddingCalculationError
#   netflume: fixed 1280 bytes of 192.0.2.7, variable 1280 bytes of 192.0.2.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netflow==0.12.2 netflume==0.6.0
cat >packets.py <<'P'
import ipaddress
import struct

import netflow
import netflume


def packet(identifier, fields, record):
    """An IPFIX packet with a template and one record."""
    template = struct.pack(">HH", identifier, len(fields)) + b"".join(struct.pack(">HH", *field) for field in fields)
    sets = struct.pack(">HH", 2, 4 + len(template)) + template + struct.pack(">HH", identifier, 4 + len(record)) + record
    return struct.pack(">HHIII", 10, 16 + len(sets), 1700000000, 1, 1) + sets


# The source address, the packets, the bytes, and in the second packet the name of the user.
FIELDS = [(8, 4), (2, 4), (1, 4)]
RECORD = ipaddress.IPv4Address("192.0.2.7").packed + struct.pack(">II", 10, 1280)
PACKETS = {
    "fixed": packet(256, FIELDS, RECORD),
    "variable": packet(257, [*FIELDS, (371, 65535)], RECORD + b"\x03abc"),
}

def by_netflow(data):
    flow = netflow.parse_packet(data, {"netflow": {}, "ipfix": {}}).flows[0].data
    return f"{flow['octetDeltaCount']} bytes of {ipaddress.ip_address(flow['sourceIPv4Address'])}"


def by_netflume(data):
    flow = netflume.Decoder().decode(data, ("127.0.0.1", 1)).flows[0]
    return f"{flow['octets']} bytes of {flow['src_addr']}"


for library, read in {"netflow": by_netflow, "netflume": by_netflume}.items():
    seen = []
    for name, data in PACKETS.items():
        try:
            seen.append(f"{name} {read(data)}")
        except Exception as error:
            seen.append(f"{name} {type(error).__name__}")
    print(f"{library}: {', '.join(seen)}")
P
venv/bin/python packets.py | tee seen
cmp - seen <<'END'
netflow: fixed 1280 bytes of 192.0.2.7, variable PaddingCalculationError
netflume: fixed 1280 bytes of 192.0.2.7, variable 1280 bytes of 192.0.2.7
END
