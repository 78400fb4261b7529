#!/usr/bin/env bash
# capinfos says that a capture of three packets in four seconds has zero packets per second, and in its table 0.75.
#
# wireshark-common 4.0.17-0+deb12u3 of Debian 12. The average packet rate should be 0.75, or 1 if it were rounded. The report
# for people has a whole number and cuts off the rest, so that 1.9 packets per second are 1; the table for scripts has 0.75 and
# 1.90. The average packet size, in the same report, has two decimals. A rate for a slow service that is chosen from the report
# is too low.
#
# Output seen:
#   3 packets in 4 s: 0 packets/s, in the table: 0.75
#   19 packets in 10 s: 1 packets/s, in the table: 1.90
#   average packet size: 60.00 bytes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=4.0.17-0+deb12u3
apt-get -o APT::Sandbox::User=root download -qq wireshark-common=$version libwiretap13=$version libwsutil14=$version libwireshark16=$version
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
bin=$folder/root/usr/bin
"$bin/editcap" --version | head -1

cat >capture.py <<'P'
import struct, sys

# A pcap file with a small frame at each of the given times, in seconds.
name, *times = sys.argv[1:]
frame = bytes([2] * 12) + b"\x08\x00" + bytes(46)
with open(name, "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for time in map(float, times):
        file.write(struct.pack("<IIII", int(time), round(time % 1 * 1e6), len(frame), len(frame)) + frame)
P
python3 capture.py slow.pcap 1000 1002 1004
python3 capture.py faster.pcap $(seq 1000 0.5 1008.5) 1010
try() { # name, file
  rate=$("$bin/capinfos" -x "$2" | sed -n 's/^Average packet rate: *//p')
  echo "$1: $rate, in the table: $("$bin/capinfos" -T -r -x "$2" | cut -f2)"
}
{
  try '3 packets in 4 s' slow.pcap
  try '19 packets in 10 s' faster.pcap
  echo "average packet size: $("$bin/capinfos" -z slow.pcap | sed -n 's/^Average packet size: *//p')"
} | tee seen
cmp - seen <<'END'
3 packets in 4 s: 0 packets/s, in the table: 0.75
19 packets in 10 s: 1 packets/s, in the table: 1.90
average packet size: 60.00 bytes
END
