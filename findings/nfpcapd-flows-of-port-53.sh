#!/usr/bin/env bash
# nfpcapd makes a flow of each packet to the UDP port 53, and one flow of all packets to the port 54.
#
# nfdump 1.7.1-2+deb12u1 of Debian 12. A capture has twelve datagrams in three seconds between the same two addresses and ports,
# which is one flow. It is for the port 54. For the port 53 there are twelve flows without a duration, and the manual page does
# not say so. The number of flows of a source, and of all, grows with its packets for DNS alone, and rates per flow are 0.
#
# Output seen:
#   port 53: flows: 12, packets: 12, seconds of the first: 0.000
#   port 54: flows: 1, packets: 12, seconds of the first: 2.750
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nfdump=1.7.1-2+deb12u1 libpcap0.8=1.10.3-1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
cat >capture.py <<'P'
import struct, sys

port = int(sys.argv[1])
addresses = bytes([192, 0, 2, 7, 198, 51, 100, 1])
header = struct.pack(">BBHHHBBH", 0x45, 0, 32, 0, 0, 64, 17, 0x501D) + addresses
frame = bytes([2] * 12) + b"\x08\x00" + header + struct.pack(">HHHH", 1000, port, 12, 0) + bytes(18)
with open(f"{port}.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for quarter in range(12):
        time = (1_700_000_000 + quarter // 4, quarter % 4 * 250_000)
        file.write(struct.pack("<IIII", *time, len(frame), len(frame)) + frame)
P
for port in 53 54; do
  python3 capture.py "$port"
  mkdir "$port"
  root/usr/bin/nfpcapd -r "$port.pcap" -l "$port" >log 2>&1
  root/usr/bin/nfdump -q -R "$port" -o 'fmt:%pkt %td' |
    awk -v port="$port" 'NF { packets += $1; if (!flows++) { sub(".*:", "", $2); seconds = $2 + 0 } }
      END { printf "port %s: flows: %d, packets: %d, seconds of the first: %.3f\n", port, flows, packets, seconds }'
done | tee seen
cmp - seen <<'END'
port 53: flows: 12, packets: 12, seconds of the first: 0.000
port 54: flows: 1, packets: 12, seconds of the first: 2.750
END
