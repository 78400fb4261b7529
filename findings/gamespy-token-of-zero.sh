#!/usr/bin/env bash
# Two libraries for game servers do not send back a token that is 0, and get no answer then.
#
# opengsq 3.7.0 and mcstatus 14.2.0 from PyPI, gamedig 5.3.3 from npm. In the query protocol of GameSpy 3 and 4, which Minecraft
# uses too, the server first sends a number as a text, and the client proves its address by sending it back as 32 bits. Each number
# should come back, also 0. opengsq and gamedig take "0" for "no token" and leave it out. A server or a guard in front of it that
# makes tokens from a hash has to avoid 0.
#
# Output seen:
#   token 7: mcstatus sends it back
#   token 7: opengsq sends it back
#   token 7: gamedig sends it back
#   token -1000000: mcstatus sends it back
#   token -1000000: opengsq sends it back
#   token -1000000: gamedig sends it back
#   token 0: mcstatus sends it back
#   token 0: opengsq does not send it back
#   token 0: gamedig does not send it back
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check opengsq==3.7.0 mcstatus==14.2.0
echo '{ "private": true }' >package.json
npm install gamedig@5.3.3 --silent --no-audit --no-fund
cat >query.mjs <<'J'
import { GameDig } from "gamedig";
const options = { type: "protocol-gamespy3", host: "127.0.0.1", port: Number(process.argv[2]), givenPortOnly: true, portCache: false };
await GameDig.query({ ...options, maxRetries: 1, socketTimeout: 3000 }).catch(() => {});
J
cat >ask.py <<'P'
import asyncio, contextlib, socket, struct, subprocess, threading

from mcstatus import JavaServer
from opengsq.protocols import GameSpy4


def mcstatus(port):
    JavaServer("127.0.0.1", 25565, timeout=3, query_port=port).query(tries=1)


def opengsq(port):
    asyncio.run(GameSpy4("127.0.0.1", port, timeout=3).get_status())


def gamedig(port):
    subprocess.run(["node", "query.mjs", str(port)], timeout=30, stdout=subprocess.DEVNULL)


def serve(server, token, questions):
    with contextlib.suppress(OSError):
        while True:
            question, client = server.recvfrom(2048)
            if question[2] == 9:
                server.sendto(b"\x09" + question[3:7] + str(token).encode() + b"\0", client)
            else:
                questions.append(question[7:11])
                return


for token in [7, -1_000_000, 0]:
    for client in [mcstatus, opengsq, gamedig]:
        questions = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(20)
            thread = threading.Thread(target=serve, args=(server, token, questions))
            thread.start()
            with contextlib.suppress(Exception):
                client(server.getsockname()[1])
            thread.join()
        sent = questions == [struct.pack(">i", token)]
        print(f"token {token}: {client.__name__} {'sends it back' if sent else 'does not send it back'}")
P
venv/bin/python ask.py | tee seen
cmp - seen <<'END'
token 7: mcstatus sends it back
token 7: opengsq sends it back
token 7: gamedig sends it back
token -1000000: mcstatus sends it back
token -1000000: opengsq sends it back
token -1000000: gamedig sends it back
token 0: mcstatus sends it back
token 0: opengsq does not send it back
token 0: gamedig does not send it back
END
