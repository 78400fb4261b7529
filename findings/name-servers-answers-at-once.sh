#!/usr/bin/env bash
# With a limit of five answers per second, BIND gives 5 answers within a moment, NSD 9 and Knot DNS 20.
#
# bind9 1:9.18.49-1~deb12u3, nsd 4.6.1-1 and knot 3.2.6-1 of Debian 12. The three servers have their limit of answers in the same
# unit (responses-per-second, rrl-ratelimit, rate-limit), and 30 questions come at once. Each should answer five of them and
# truncate the others. NSD compares twice the limit with the count of this second and half of that before; Knot DNS lets four
# seconds of its limit pass. The manuals of these two name no burst. A limit is not the same after a move to another server.
#
# Output seen:
#   BIND: 5 of 30 answered
#   NSD: 9 of 30 answered
#   Knot DNS: 20 of 30 answered
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
servers=()
trap '[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}"; wait; ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
bind=1:9.18.49-1~deb12u3
apt-get -o APT::Sandbox::User=root download -qq bind9=$bind bind9-libs=$bind nsd=4.6.1-1 knot=3.2.6-1 libknot13=3.2.6-1 \
  libdnssec9=3.2.6-1 libzscanner4=3.2.6-1 libuv1 libjemalloc2 liblmdb0 libfstrm0 libprotobuf-c1 libmaxminddb0 libxdp1 liburcu8
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
printf '%s\n' '$TTL 60' '@ SOA ns mail 1 60 60 60 60' '@ NS ns' 'ns A 127.0.0.1' 'www A 192.0.2.7' >zone
cat >named.conf <<C
options {
  directory "$folder";
  listen-on port 5301 { 127.0.0.1; };
  listen-on-v6 { none; };
  pid-file none;
  session-keyfile none;
  recursion no;
  rate-limit { responses-per-second 5; slip 1; };
};
controls { };
zone "example" { type primary; file "$folder/zone"; };
C
cat >nsd.conf <<C
server:
  ip-address: 127.0.0.1@5302
  username: ""
  database: ""
  pidfile: ""
  zonelistfile: "$folder/zones"
  xfrdfile: "$folder/transfers"
  zonesdir: "$folder"
  rrl-ratelimit: 5
  rrl-slip: 1
remote-control:
  control-enable: no
zone:
  name: example
  zonefile: $folder/zone
C
cat >knot.conf <<C
server:
  listen: 127.0.0.1@5303
  rundir: $folder
database:
  storage: $folder
mod-rrl:
  - id: five
    rate-limit: 5
    slip: 1
zone:
  - domain: example
    file: $folder/zone
    module: mod-rrl/five
C
cat >ask.py <<'P'
import socket, struct, sys, time

TRUNCATED = 0x0200
name, port = sys.argv[1], int(sys.argv[2])
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.connect(("127.0.0.1", port))
asker.settimeout(0.2)


def ask(number, label):
    asker.send(struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\7example\0\0\1\0\1")
    return struct.unpack(">H", asker.recv(512)[2:4])[0]


for _ in range(50):  # The server has started when it answers for another name.
    try:
        if ask(0, b"ns") & 0xF == 0:
            break
    except OSError:
        time.sleep(0.1)
time.sleep(1 - time.time() % 1 + 0.05)  # NSD counts in seconds of the clock.
answers = sum(not ask(number, b"www") & TRUNCATED for number in range(30))
print(f"{name}: {answers} of 30 answered")
P
ip netns add "$space"
ip -n "$space" link set dev lo up
inside() { ip netns exec "$space" "$@"; }
inside root/usr/sbin/named -f -c "$folder/named.conf" &
servers+=($!)
inside root/usr/sbin/nsd -d -c "$folder/nsd.conf" 2>nsd.log &
servers+=($!)
inside root/usr/sbin/knotd -c "$folder/knot.conf" >knot.log 2>&1 &
servers+=($!)
{
  inside python3 ask.py BIND 5301
  inside python3 ask.py NSD 5302
  inside python3 ask.py 'Knot DNS' 5303
} | tee seen
cmp - seen <<'END'
BIND: 5 of 30 answered
NSD: 9 of 30 answered
Knot DNS: 20 of 30 answered
END
