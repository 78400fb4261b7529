#!/usr/bin/env bash
# nslookup of BusyBox prints no address for a truncated answer, and succeeds.
#
# busybox 1:1.35.0-4+deb12u1+b1 of Debian 12. A name server answers by UDP with nothing but the flag TC, as servers do under attack, to
# see by TCP whether the source is real. The client should ask again by TCP, as glibc and dig do, or fail. It asks once by UDP,
# prints that an answer follows, prints none, and exits with 0, as for a name without addresses. Needs iproute2.
#
# Output seen:
#   Non-authoritative answer: (nothing), status 0
#   asked: UDP
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
server=
trap '[ -z "$server" ] || kill "$server"; wait; ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq busybox=1:1.35.0-4+deb12u1+b1
dpkg-deb -x busybox_*.deb root
root/bin/busybox 2>&1 | head -1 | tee version
grep -q 'v1\.35\.0' version
ip netns add "$space"
ip -n "$space" link set dev lo up

cat >server.py <<'P'
import socket, struct, threading

tcp = socket.create_server(("127.0.0.1", 53))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 53))
open("ready", "w").close()


def note(protocol):
    with open("asked", "a") as file:
        print(protocol, file=file)


def answer(query, flags, records):
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + query[12:] + b"".join(records)


def by_tcp():
    while True:
        client, _ = tcp.accept()
        query = client.recv(512)[2:]
        note("TCP")
        full = answer(query, 0x8180, [b"\xc0\x0c" + struct.pack(">HHIH4B", 1, 1, 60, 4, 192, 0, 2, 7)])
        client.sendall(struct.pack(">H", len(full)) + full)
        client.close()


threading.Thread(target=by_tcp, daemon=True).start()
while True:
    query, client = udp.recvfrom(512)
    note("UDP")
    udp.sendto(answer(query, 0x8380, []), client)
P
ip netns exec "$space" python3 server.py &
server=$!
for _ in $(seq 50); do [ -e ready ] && break || sleep 0.1; done
status=0
ip netns exec "$space" root/bin/busybox nslookup -type=a www.example 127.0.0.1 >answer || status=$?
{
  echo "Non-authoritative answer: $(sed '1,/^Non-authoritative answer:/d' answer | grep . || echo '(nothing)'), status $status"
  echo "asked: $(paste -sd' ' asked)"
} | tee seen
grep -q '^Non-authoritative answer:' answer
cmp - seen <<'END'
Non-authoritative answer: (nothing), status 0
asked: UDP
END
