#!/usr/bin/env bash
# Scapy does not add a pcapng file's time offset, and gives packets without a time the present one.
#
# Scapy 2.8.0 from PyPI. A pcapng interface may have `if_tsoffset`, seconds to add to each time of its packets; a simple packet
# block has no time at all. The first packet should be at 1700000000.5, as tcpdump prints it, or be refused; the second at 0,
# as tcpdump prints it. Scapy puts the first into 1970, and the second into the moment at which the file is read. A file that
# is read twice thus has two times, and a rate computed from it depends on the day.
#
# Output seen:
#   offset of 1700000000 s: 0.5
#   no time: the present
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scapy==2.8.0
cat >read.py <<'P'
import logging, struct, time

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.utils import PcapNgReader

FRAME = bytes([2] * 12) + b"\x08\x00" + bytes(46)


def block(kind, body):
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(*options):
    return block(1, struct.pack("<HHI", 1, 0, 0) + b"".join(options) + option(0, b""))


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
# Times in units of 2^-10 s, from 1700000000 s on.
OFFSET = interface(option(9, bytes([0x80 | 10])), option(14, struct.pack("<q", 1_700_000_000)))
TIMED = block(6, struct.pack("<IIIII", 0, 0, 512, len(FRAME), len(FRAME)) + FRAME)
SIMPLE = block(3, struct.pack("<I", len(FRAME)) + FRAME)


def seconds(name, content):
    with open(name, "wb") as file:
        file.write(content)
    (packet,) = PcapNgReader(name)
    return float(packet.time)


offset = seconds("offset.pcapng", SECTION + OFFSET + TIMED)
print("offset of 1700000000 s:", offset)
began = time.time()
simple = seconds("simple.pcapng", SECTION + interface() + SIMPLE)
print("no time:", "the present" if began - 1 <= simple <= time.time() + 1 else simple)
P
venv/bin/python read.py | tee printed
test "$(cat printed)" = $'offset of 1700000000 s: 0.5\nno time: the present'
