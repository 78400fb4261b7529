#!/usr/bin/env bash
# Five libraries for Valve's server queries begin in four ways, of which one is the documented one.
#
# python-a2s 1.4.2, a2squery 1.2.2, little-a2s 0.7.3 and opengsq 3.7.0 from PyPI, gamedig 5.3.3 from npm. Without a challenge a
# client should ask for information in 25 bytes, and for players with the challenge -1. Only opengsq does both. Two libraries ask
# for information in 29 bytes with the challenge -1; python-a2s asks for players with 0; three ask for players with the challenge
# that they got for the information. A filter that knows first questions by their length or by -1 misses real ones.
#
# Output seen:
#   python-a2s: information 25 bytes, players 00000000
#   a2squery: information 29 bytes ffffffff, players 11223344
#   little-a2s: information 29 bytes ffffffff, players 11223344
#   opengsq: information 25 bytes, players ffffffff
#   gamedig: information 25 bytes, players 11223344
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  python-a2s==1.4.2 a2squery==1.2.2 little-a2s==0.7.3 opengsq==3.7.0
echo '{ "private": true, "type": "module" }' >package.json
npm install gamedig@5.3.3 --silent --no-audit --no-fund

cat >server.py <<'P'
import socket, struct

CHALLENGE = b"\x11\x22\x33\x44"
ANSWERS = {
    b"T": b"I\x11name\0map\0folder\0game\0" + struct.pack("<H", 440) + b"\1\x10\0dl\0\1" + b"1.0\0\0",
    b"U": b"D\1\0player\0" + struct.pack("<lf", 5, 10),
}
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
with open("port", "w") as file:
    file.write(str(server.getsockname()[1]))
while True:
    query, client = server.recvfrom(2048)
    kind = query[4:5]
    challenge = query[25:] if kind == b"T" else query[5:]
    with open("asked", "a") as file:
        print(kind.decode(), len(query), challenge.hex(), file=file)
    answer = ANSWERS[kind] if challenge == CHALLENGE else b"A" + CHALLENGE
    server.sendto(b"\xff\xff\xff\xff" + answer, client)
P
cat >ask.py <<'P'
import asyncio, sys

name, port = sys.argv[1], int(sys.argv[2])
server = ("127.0.0.1", port)
if name == "python-a2s":
    import a2s

    a2s.info(server)
    a2s.players(server)
elif name == "a2squery":
    from a2squery import A2SQuery

    client = A2SQuery(*server)
    client.info()
    client.players()
elif name == "little-a2s":
    from little_a2s import A2S

    with A2S.from_addr(*server) as client:
        client.info()
        client.players()
else:
    from opengsq.protocols.source import Source

    client = Source(*server)
    asyncio.run(client.get_info())
    asyncio.run(client.get_players())
P
cat >ask.js <<'J'
import { GameDig } from "gamedig";

await GameDig.query({ type: "teamfortress2", host: "127.0.0.1", port: Number(process.argv[2]), givenPortOnly: true });
J
python3 server.py &
server=$!
for _ in $(seq 50); do [ -s port ] && break || sleep 0.1; done
for name in python-a2s a2squery little-a2s opengsq gamedig; do
  rm -f asked
  if [ "$name" = gamedig ]; then node ask.js "$(cat port)"; else venv/bin/python ask.py "$name" "$(cat port)"; fi
  awk -v name="$name" '
    $1 == "T" && !info { info = "information " $2 " bytes" ($3 == "" ? "" : " " $3) }
    $1 == "U" && !players { players = "players " $3 }
    END { print name ": " info ", " players }' asked
done | tee seen
cmp - seen <<'END'
python-a2s: information 25 bytes, players 00000000
a2squery: information 29 bytes ffffffff, players 11223344
little-a2s: information 29 bytes ffffffff, players 11223344
opengsq: information 25 bytes, players ffffffff
gamedig: information 25 bytes, players 11223344
END
