#!/usr/bin/env bash
# Clients of Valve's server queries follow one to five challenges in a row, depending on the library.
#
# python-a2s 1.4.2, opengsq 3.7.0, little-a2s 0.7.3 and a2squery 1.2.2 from PyPI, gamedig 5.3.3 and source-server-query 3.0.3 from npm. A
# server whose challenges change, or one of several behind an address, may answer the repeated question with another challenge.
# Clients should all ask again, or all give up after one. The libraries follow 1, 2, 3 or 5 challenges. A server that gives
# a second challenge loses the clients of source-server-query.
#
# Output seen:
#   python-a2s: 5
#   opengsq: 2
#   little-a2s: 2
#   a2squery: 3
#   gamedig: 2
#   source-server-query: 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check python-a2s==1.4.2 opengsq==3.7.0 little-a2s==0.7.3 a2squery==1.2.2
echo '{ "private": true, "type": "module" }' >package.json
npm install gamedig@5.3.3 source-server-query@3.0.3 --silent --no-audit --no-fund
cat >ask.py <<'P'
import asyncio
import socket
import struct
import threading

import a2s
import a2squery
import little_a2s
from opengsq.protocols import Source

INFORMATION = b"\xff\xff\xff\xffI\x11name\0map\0folder\0game\0\xb8\x01\x03\x10\0dl\0\x011.0\0\0"


def server(challenges):
    """The port of a server that gives as many challenges before it answers."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))

    def answer():
        for number in range(1, challenges + 1):
            client = listener.recvfrom(2000)[1]
            listener.sendto(b"\xff\xff\xff\xffA" + struct.pack("<I", number), client)
        listener.sendto(INFORMATION, listener.recvfrom(2000)[1])

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1]


def ask_little_a2s(port):
    with little_a2s.A2S.from_ipv4(timeout=3) as client:
        return client.info(("127.0.0.1", port))


def ask_a2squery(port):
    with a2squery.A2SQuery("127.0.0.1", port, timeout=3) as client:
        return client.info()


async def ask_opengsq(port):
    return await Source("127.0.0.1", port, 3).get_info()


CLIENTS = {
    "python-a2s": lambda port: a2s.info(("127.0.0.1", port), 3),
    "opengsq": lambda port: asyncio.run(ask_opengsq(port)),
    "little-a2s": ask_little_a2s,
    "a2squery": ask_a2squery,
}
for name, ask in CLIENTS.items():
    followed = 0
    for challenges in range(1, 9):
        try:
            ask(server(challenges))
        except Exception:
            break
        followed = challenges
    print(f"{name}: {followed}")
P
cat >ask.js <<'J'
import dgram from "dgram";
import { GameDig } from "gamedig";
import source from "source-server-query";

const INFORMATION = Buffer.concat([
  Buffer.from("ffffffff49116e616d65006d617000666f6c6465720067616d6500", "hex"),
  Buffer.from("b801031000646c0001312e300000", "hex"),
]);
const clients = {
  gamedig: (port) =>
    GameDig.query({ type: "teamfortress2", host: "127.0.0.1", port, givenPortOnly: true, maxRetries: 1, requestPlayers: false }),
  "source-server-query": (port) => source.info("127.0.0.1", port, 3000),
};
for (const [name, ask] of Object.entries(clients)) {
  let followed = 0;
  for (let challenges = 1; challenges < 9; challenges += 1) {
    const server = dgram.createSocket("udp4");
    let number = 0;
    server.on("message", (_, { address, port }) => {
      number += 1;
      const answer = number > challenges ? INFORMATION : Buffer.from([255, 255, 255, 255, 0x41, number, 0, 0, 0]);
      server.send(answer, port, address);
    });
    await new Promise((resolve) => server.bind(0, "127.0.0.1", resolve));
    const answered = await ask(server.address().port).then(() => true, () => false);
    server.close();
    if (!answered) break;
    followed = challenges;
  }
  console.log(`${name}: ${followed}`);
}
process.exit();
J
{ venv/bin/python ask.py && node ask.js; } | tee seen
cmp - seen <<'END'
python-a2s: 5
opengsq: 2
little-a2s: 2
a2squery: 3
gamedig: 2
source-server-query: 1
END
