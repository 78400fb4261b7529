#!/usr/bin/env bash
# pypacker reads ports from the data of a later fragment.
#
# pypacker 5.4 and dpkt 1.9.8 from PyPI. Only the first fragment of a datagram has the UDP header. The second one has nothing but data,
# and should have no UDP layer, as with dpkt. pypacker takes its first eight bytes for a UDP header: here the text "ABCDEFGH" is a
# packet from port 16706 to port 17220. A count of packets per port has ports that nobody used.
#
# Output seen:
#   dpkt: first fragment 1000 to 9, second fragment no UDP
#   pypacker: first fragment 1000 to 9, second fragment 16706 to 17220
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pypacker==5.4 dpkt==1.9.8
cat >ports.py <<'P'
import struct

import dpkt
from pypacker.layer12.ethernet import Ethernet
from pypacker.layer4.udp import UDP


def frame(data, begin, more):
    addresses = bytes([192, 0, 2, 7, 198, 51, 100, 1])
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), 7, more << 13 | begin // 8, 64, 17, 0)
    return bytes([2] * 12) + b"\x08\x00" + header + addresses + data


def with_dpkt(frame):
    datagram = dpkt.ethernet.Ethernet(frame).data.data
    return f"{datagram.sport} to {datagram.dport}" if isinstance(datagram, dpkt.udp.UDP) else "no UDP"


def with_pypacker(frame):
    datagram = Ethernet(frame)[UDP]
    return f"{datagram.sport} to {datagram.dport}" if datagram is not None else "no UDP"


datagram = struct.pack(">HHHH", 1000, 9, 32, 0) + b"abcdefgh" + b"ABCDEFGH" * 2
fragments = [frame(datagram[:16], 0, True), frame(datagram[16:], 16, False)]
for name, read in [("dpkt", with_dpkt), ("pypacker", with_pypacker)]:
    print(f"{name}: first fragment {read(fragments[0])}, second fragment {read(fragments[1])}")
P
venv/bin/python ports.py 2>warnings | tee seen
cmp - seen <<'END'
dpkt: first fragment 1000 to 9, second fragment no UDP
pypacker: first fragment 1000 to 9, second fragment 16706 to 17220
END
