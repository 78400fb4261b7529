#!/usr/bin/env bash
# tcpdump ignores -Q when it reads a file, although pcapng files say each packet's direction.
#
# tcpdump 4.99.3-1 and libpcap 1.10.3-1 of Debian 12. A packet is marked inbound (flags option 2 of its block). "-Q out" should
# leave it out, or be refused, as the filter "outbound" is. tcpdump prints the packet, with status 0 and no warning.
#
# Output seen:
#   -Q in:  IP 192.0.2.1.1 > 192.0.2.2.2: UDP, length 0
#   -Q out: IP 192.0.2.1.1 > 192.0.2.2.2: UDP, length 0
#   tcpdump: inbound/outbound not supported on Ethernet when reading savefiles
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq tcpdump=4.99.3-1 libpcap0.8=1.10.3-1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
tcpdump=$folder/root/usr/bin/tcpdump
"$tcpdump" --version 2>&1 | head -2 | tee version
grep -q 'tcpdump version 4\.99\.3' version
grep -q 'libpcap version 1\.10\.3' version

python3 - <<'P'
import struct


def block(kind, body):
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


ethernet = bytes.fromhex("0200000000010200000000020800")
ip = bytes.fromhex("4500001c00010000401100000000000000000000")[:12] + bytes([192, 0, 2, 1, 192, 0, 2, 2])
packet = ethernet + ip + struct.pack(">HHHH", 1, 2, 8, 0)
inbound = struct.pack("<HHI", 2, 4, 1) + struct.pack("<HH", 0, 0)
padding = bytes(-len(packet) % 4)
with open("inbound.pcapng", "wb") as file:
    file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
    file.write(block(1, struct.pack("<HHI", 1, 0, 65535)))
    header = struct.pack("<IIIII", 0, 0, 0, len(packet), len(packet))
    file.write(block(6, header + packet + padding + inbound))
P
for direction in in out; do
  printed=$("$tcpdump" -n -t -Q "$direction" -r inbound.pcapng 2>/dev/null)
  echo "-Q $direction: $printed"
  test "$printed" = "IP 192.0.2.1.1 > 192.0.2.2.2: UDP, length 0"
done
! "$tcpdump" -n -r inbound.pcapng outbound 2>refused
grep 'inbound/outbound not supported on Ethernet when reading savefiles' refused
