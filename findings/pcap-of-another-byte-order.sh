#!/usr/bin/env bash
# pypcapfile reads no packet of a capture in the other byte order, and pypcapkit reads the packets of 2023 as of 1970.
#
# pypcapfile 0.12.0, pypcapkit 1.4.1.post2 and Scapy 2.8.0 from PyPI. The first four bytes of a pcap file say its byte order and
# if its fractions of a second are micro- or nanoseconds; a machine of the other byte order writes big-endian. Each file has one
# packet of 1700000000.5. pypcapfile says nothing and gives an empty list, and takes nanoseconds for microseconds. pypcapkit gives
# another time. A rate that is computed from such a file is 0, or a million times wrong.
#
# Output seen:
#   little-endian, microseconds: Scapy ['1700000000.5'], pypcapfile ['1700000000 s 500000 us'], pypcapkit ['1700000000.5']
#   little-endian, nanoseconds: Scapy ['1700000000.5'], pypcapfile ['1700000000 s 500000000 us'], pypcapkit ['1700000000.5']
#   big-endian, microseconds: Scapy ['1700000000.5'], pypcapfile [], pypcapkit ['15816072.4']
#   big-endian, nanoseconds: Scapy ['1700000000.5'], pypcapfile [], pypcapkit ['15815525.0']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pypcapfile==0.12.0 pypcapkit==1.4.1.post2 scapy==2.8.0
cat >read.py <<'P'
import struct, warnings

import pcapkit
from pcapfile.savefile import load_savefile
from scapy.utils import rdpcap

warnings.simplefilter("ignore")
FRAME = bytes([2] * 12) + b"\x08\x00" + bytes(46)


def times(name):
    scapy = [f"{float(packet.time):.1f}" for packet in rdpcap(name)]
    with open(name, "rb") as file:
        pypcapfile = [f"{packet.timestamp} s {packet.timestamp_us} us" for packet in load_savefile(file).packets]
    extraction = pcapkit.extract(fin=name, nofile=True, store=True, verbose=False)
    pypcapkit = [f"{float(frame.info.time_epoch):.1f}" for frame in extraction.frame]
    return f"Scapy {scapy}, pypcapfile {pypcapfile}, pypcapkit {pypcapkit}"


for order, end in {"little-endian": "<", "big-endian": ">"}.items():
    for unit, magic, fraction in [("microseconds", 0xA1B2C3D4, 500_000), ("nanoseconds", 0xA1B23C4D, 500_000_000)]:
        with open("capture.pcap", "wb") as file:
            file.write(struct.pack(end + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1))
            file.write(struct.pack(end + "IIII", 1_700_000_000, fraction, len(FRAME), len(FRAME)) + FRAME)
        print(f"{order}, {unit}: {times('capture.pcap')}")
P
venv/bin/python read.py 2>errors | tee seen
cmp - seen <<'END'
little-endian, microseconds: Scapy ['1700000000.5'], pypcapfile ['1700000000 s 500000 us'], pypcapkit ['1700000000.5']
little-endian, nanoseconds: Scapy ['1700000000.5'], pypcapfile ['1700000000 s 500000000 us'], pypcapkit ['1700000000.5']
big-endian, microseconds: Scapy ['1700000000.5'], pypcapfile [], pypcapkit ['15816072.4']
big-endian, nanoseconds: Scapy ['1700000000.5'], pypcapfile [], pypcapkit ['15815525.0']
END
