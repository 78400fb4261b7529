#!/usr/bin/env bash
# dpkt reads the packets of a pcapng file's second interface with the time unit of the first one.
#
# dpkt 1.9.8 and Scapy 2.8.0 from PyPI. Each interface of a pcapng file has its own unit of time: here the first has microseconds
# and the second nanoseconds, as when two captures are merged. The two packets are 0.1 s apart, as Scapy reads them. dpkt puts
# the second one some 54,000 years later, so that a rate computed from the file is nearly 0.
#
# Output seen:
#   Scapy: 1700000000.500000 1700000000.600000
#   dpkt: 1700000000.500000 1700000000600.000000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check dpkt==1.9.8 scapy==2.8.0
cat >read.py <<'P'
import struct

import dpkt
from scapy.utils import rdpcap


def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def interface(digits):  # Ethernet; an option says how many decimal digits a second has.
    return block(1, struct.pack("<HHI", 1, 0, 65535) + struct.pack("<HHB3xI", 9, 1, digits, 0))


def packet(interface, time):
    frame = bytes(60)
    return block(6, struct.pack("<IIIII", interface, time >> 32, time & 0xFFFFFFFF, 60, 60) + frame)


with open("two.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    file.write(interface(6) + interface(9))
    file.write(packet(0, 1_700_000_000_500_000) + packet(1, 1_700_000_000_600_000_000))
print("Scapy:", *[f"{float(packet.time):.6f}" for packet in rdpcap("two.pcapng")])
with open("two.pcapng", "rb") as file:
    print("dpkt:", *[f"{time:.6f}" for time, _ in dpkt.pcapng.Reader(file)])
P
venv/bin/python read.py | tee seen
cmp - seen <<'END'
Scapy: 1700000000.500000 1700000000.600000
dpkt: 1700000000.500000 1700000000600.000000
END
