#!/usr/bin/env bash
# Two npm libraries for Valve's server queries find no players if the answer is split into packets.
#
# source-server-query 3.0.3, steam-server-query 1.1.3 and gamedig 5.3.3 from npm. A server splits an answer that is too long for one
# packet (header -2). A list of 40 players in three packets should have 40 players, as with gamedig, or be an error. The first
# two libraries read the first packet as a whole answer, and return an empty list. A full server thus looks empty.
#
# Output seen:
#   source-server-query: 3 players in one packet, 0 of 40 in three packets
#   steam-server-query: 3 players in one packet, 0 of 40 in three packets
#   gamedig: 3 players in one packet, 40 of 40 in three packets
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install source-server-query@3.0.3 steam-server-query@1.1.3 gamedig@5.3.3 --silent --no-audit --no-fund
cat >ask.js <<'J'
import dgram from "dgram";
import { GameDig } from "gamedig";
import source from "source-server-query";
import steam from "steam-server-query";

const CHALLENGE = Buffer.from("ffffffff4101020304", "hex");
const INFORMATION = Buffer.concat([
  Buffer.from("ffffffff49116e616d65006d617000666f6c6465720067616d6500", "hex"),
  Buffer.from("b801031000646c0001312e300000", "hex"),
]);

/** The packets of a list of `count` players. */
function players(count) {
  const parts = [Buffer.from([0xff, 0xff, 0xff, 0xff, 0x44, count])];
  for (let index = 0; index < count; index += 1) {
    parts.push(Buffer.from([index]), Buffer.from(`player${index}\0`), Buffer.alloc(8));
  }
  const answer = Buffer.concat(parts);
  if (answer.length < 300) return [answer];
  const packets = [];
  for (let number = 0; number < 3; number += 1) {
    const header = Buffer.from([0xfe, 0xff, 0xff, 0xff, 7, 0, 0, 0, 3, number, 300 & 0xff, 300 >> 8]);
    packets.push(Buffer.concat([header, answer.subarray(number * 300, number * 300 + 300)]));
  }
  return packets;
}

/** The number of players that a client finds at a server with `count` of them. */
async function ask(client, count) {
  const server = dgram.createSocket("udp4");
  server.on("message", (message, { address, port }) => {
    const [kind, asked] = [message[4], message.includes(CHALLENGE.subarray(5))];
    const packets = kind === 0x54 ? [INFORMATION] : asked ? players(count) : [CHALLENGE];
    for (const packet of packets) server.send(packet, port, address);
  });
  await new Promise((resolve) => server.bind(0, "127.0.0.1", resolve));
  const found = await client(server.address().port);
  server.close();
  return found.length;
}

const clients = {
  "source-server-query": (port) => source.players("127.0.0.1", port, 2000),
  "steam-server-query": async (port) => (await steam.queryGameServerPlayer(`127.0.0.1:${port}`, 1, 2000)).players,
  gamedig: async (port) =>
    (await GameDig.query({ type: "teamfortress2", host: "127.0.0.1", port, givenPortOnly: true })).players,
};
for (const [name, client] of Object.entries(clients)) {
  console.log(`${name}: ${await ask(client, 3)} players in one packet, ${await ask(client, 40)} of 40 in three packets`);
}
process.exit();
J
node ask.js | tee seen
cmp - seen <<'END'
source-server-query: 3 players in one packet, 0 of 40 in three packets
steam-server-query: 3 players in one packet, 0 of 40 in three packets
gamedig: 3 players in one packet, 40 of 40 in three packets
END
