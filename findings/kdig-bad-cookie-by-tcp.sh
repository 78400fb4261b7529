#!/usr/bin/env bash
# kdig does not go to TCP when a server refuses its cookie again and again, as dig does after the second time.
#
# knot-dnsutils 3.2.6-1 and bind9-dnsutils 1:9.18.49-1~deb12u3 of Debian 12. A server answers BADCOOKIE by UDP whatever cookie a
# client brings, as one of several servers behind an address does if their secrets differ. A client should bring the new cookie
# once, and then ask by TCP (RFC 7873). dig does so and gets the address. kdig asks eleven times by UDP, prints no address, and
# exits with 0. Needs iproute2.
#
# Output seen:
#   dig: 2 by UDP, 1 by TCP: 192.0.2.7
#   kdig: 11 by UDP, 0 by TCP: no address, status 0
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
server=
trap '[ -z "$server" ] || kill "$server"; wait; ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
bind=1:9.18.49-1~deb12u3
apt-get -o APT::Sandbox::User=root download -qq bind9-dnsutils=$bind bind9-libs=$bind knot-dnsutils=3.2.6-1 libknot13=3.2.6-1 \
  libdnssec9=3.2.6-1 libzscanner4=3.2.6-1 libuv1 libjemalloc2 liblmdb0 libfstrm0 libprotobuf-c1 libmaxminddb0 libxdp1
for package in *.deb; do dpkg-deb -x "$package" root; done
ip netns add "$space"
ip -n "$space" link set dev lo up

cat >server.py <<'P'
import socket, struct, threading

tcp = socket.create_server(("127.0.0.1", 53))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 53))
open("ready", "w").close()


def answer(query, protocol):
    """The address by TCP, BADCOOKIE by UDP, both with a server cookie."""
    with open("asked", "a") as file:
        print(protocol, file=file)
    end = query.index(b"\0", 12) + 5
    option = query.index(struct.pack(">H", 10), end + 11)
    cookie = query[option + 4 : option + 12] + b"\1\0\0\0" + b"cookie of it"
    refused = protocol == "UDP"
    record = b"\xc0\x0c" + struct.pack(">HHIH4B", 1, 1, 60, 4, 192, 0, 2, 7)
    return (
        query[:2]
        + struct.pack(">5H", 0x8187 if refused else 0x8180, 1, not refused, 0, 1)
        + query[12:end]
        + (b"" if refused else record)
        + struct.pack(">BHHBBHHHH", 0, 41, 1232, refused, 0, 0, 28, 10, 24)
        + cookie
    )


def by_tcp():
    while True:
        client, _ = tcp.accept()
        full = answer(client.recv(512)[2:], "TCP")
        client.sendall(struct.pack(">H", len(full)) + full)
        client.close()


threading.Thread(target=by_tcp, daemon=True).start()
while True:
    query, client = udp.recvfrom(512)
    udp.sendto(answer(query, "UDP"), client)
P
ip netns exec "$space" python3 server.py &
server=$!
for _ in $(seq 50); do [ -e ready ] && break || sleep 0.1; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
ask() { # name, options
  local status=0 address
  : >asked
  ip netns exec "$space" "root/usr/bin/$@" @127.0.0.1 www.example A >answer 2>warnings || status=$?
  address=$(grep -o '192\.0\.2\.7' answer | head -1 || true)
  echo "$1: $(grep -c UDP asked || true) by UDP, $(grep -c TCP asked || true) by TCP: ${address:-no address, status $status}"
}
{
  ask dig
  ask kdig +cookie
} | tee seen
cmp - seen <<'END'
dig: 2 by UDP, 1 by TCP: 192.0.2.7
kdig: 11 by UDP, 0 by TCP: no address, status 0
END
