#!/usr/bin/env bash
# softflowd and tcpstat count the padding of Ethernet as bytes of a packet, without the Ethernet header.
#
# softflowd 1.1.0-1+b1, tcpstat 1.5-8+b1 and nfdump 1.7.1-2+deb12u1 of Debian 12. A datagram of 33 bytes fills a frame of 60 with
# 13 bytes of padding. Its bytes should be 33, as nfpcapd and NetFlow count them, or 60, as the link does. softflowd and tcpstat
# take the Ethernet header away and keep the padding: 46. Floods of small packets look 39 % larger. A VLAN tag, which is no IP
# either, counts in tcpstat and not in softflowd.
#
# Output seen, bytes of a packet:
#   softflowd: 128 of a datagram of 128, 128 with a VLAN tag, 46 of a datagram of 33
#   tcpstat: 128 of a datagram of 128, 132 with a VLAN tag, 46 of a datagram of 33
#   nfpcapd: 128 of a datagram of 128, 128 with a VLAN tag, 33 of a datagram of 33
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq softflowd=1.1.0-1+b1 tcpstat=1.5-8+b1 nfdump=1.7.1-2+deb12u1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/usr/lib/x86_64-linux-gnu/nfdump
python3 - <<'P'
import socket
import struct


def frame(size, tagged):
    """A frame with an IPv4 datagram of `size` bytes."""
    addresses = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1")
    header = struct.pack(">BBHHHBBH", 0x45, 0, size, 1, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", ~total & 0xFFFF) + header[12:]
    datagram = header + struct.pack(">HHHH", 5000, 7777, size - 20, 0) + bytes(size - 28)
    link = b"\2\0\0\0\0\1\2\0\0\0\0\2" + (b"\x81\0\0\7" if tagged else b"") + b"\x08\0"
    return (link + datagram).ljust(60, b"\0")


for name, size, tagged in [("plain", 128, False), ("tagged", 128, True), ("padded", 33, False)]:
    with open(f"{name}.pcap", "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        packet = frame(size, tagged)
        file.write(struct.pack("<IIII", 1700000000, 0, len(packet), len(packet)) + packet)
P
softflowd() { root/usr/sbin/softflowd -D -r "$1.pcap" 2>&1 | sed -n 's/.*octets>:\([0-9]*\).*/\1/p'; }
tcpstat() { root/usr/bin/tcpstat -r "$1.pcap" -o '%N\n' 1; }
nfpcapd() {
  mkdir "$1"
  root/usr/bin/nfpcapd -r "$1.pcap" -w "$1" >log 2>&1
  root/usr/bin/nfdump -q -R "$1" -o fmt:%byt | tr -d ' \n'
}
for tool in softflowd tcpstat nfpcapd; do
  echo "$tool: $($tool plain) of a datagram of 128, $($tool tagged) with a VLAN tag, $($tool padded) of a datagram of 33"
done | tee seen
cmp - seen <<'END'
softflowd: 128 of a datagram of 128, 128 with a VLAN tag, 46 of a datagram of 33
tcpstat: 128 of a datagram of 128, 132 with a VLAN tag, 46 of a datagram of 33
nfpcapd: 128 of a datagram of 128, 128 with a VLAN tag, 33 of a datagram of 33
END
