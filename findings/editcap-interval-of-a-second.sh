#!/usr/bin/env bash
# "editcap -i 1" puts the packet that comes after exactly a second into the first file, but not into later ones.
#
# wireshark-common 4.0.17-0+deb12u3 of Debian 12. Packets come each half second, and files of one second should have two each.
# The first file has three, and the later ones two; of packets that come each second, it has two and the later ones one. The
# first interval has both of its ends, and all the others have one. A count per file overstates the rate of the first second by
# half.
#
# Output seen:
#   packets each 0.5 s: 3 2 2 2
#   packets each second: 2 1 1 1
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
try() { # name, times
  name=$1
  shift
  python3 capture.py all.pcap "$@"
  "$bin/editcap" -F pcap -i 1 all.pcap part.pcap
  echo "$name: $("$bin/capinfos" -T -r -c part_*.pcap | cut -f2 | paste -sd' ')"
  rm part_*.pcap
}
{
  try 'packets each 0.5 s' $(seq 1000 0.5 1004)
  try 'packets each second' $(seq 1000 1004)
} | tee seen
cmp - seen <<'END'
packets each 0.5 s: 3 2 2 2
packets each second: 2 1 1 1
END
