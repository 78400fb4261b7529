#!/usr/bin/env bash
# Two npm libraries for Valve's server queries answer a challenge with questions of 33, 13 and 42 bytes.
#
# source-server-query 3.0.3 and steam-server-query 1.1.3 from npm. A client puts the challenge of the server at the end of its
# question: 29 bytes for information, 9 for players. source-server-query puts it in front of the -1 of its first question.
# steam-server-query takes any answer to its first question for a challenge: to a server that lists players at once, it sends
# that list back. A filter that checks the length of a question, or its last four bytes, drops these clients.
#
# Output seen:
#   source-server-query, information: 54536f7572636520456e67696e6520517565727900ffffffff
#   source-server-query, information: 54536f7572636520456e67696e652051756572790001020304ffffffff
#   source-server-query, players: 55ffffffff
#   source-server-query, players: 5501020304ffffffff
#   steam-server-query, information: 54536f7572636520456e67696e6520517565727900
#   steam-server-query, information: 54536f7572636520456e67696e652051756572790001020304
#   steam-server-query, players of a server without challenges: 55ffffffff
#   steam-server-query, players of a server without challenges: 5501006d650000000000000000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install source-server-query@3.0.3 steam-server-query@1.1.3 --silent --no-audit --no-fund
cat >ask.js <<'J'
const dgram = require("dgram");
const source = require("source-server-query");
const steam = require("steam-server-query");

const CHALLENGE = Buffer.from("ffffffff4101020304", "hex");
const PLAYERS = Buffer.from("ffffffff4401006d650000000000000000", "hex");
const INFORMATION = Buffer.concat([
  Buffer.from("ffffffff49116e616d65006d617000666f6c6465720067616d6500", "hex"),
  Buffer.from("b801031000646c0001312e300000", "hex"),
]);

/** Asks a server that answers the first question with `first`, and the second with `second`. */
async function ask(name, question, first, second) {
  const server = dgram.createSocket("udp4");
  let count = 0;
  server.on("message", (message, { address, port }) => {
    count += 1;
    if (count > 2) return;
    console.log(`${name}: ${message.toString("hex", 4)}`);
    server.send(count === 1 ? first : second, port, address);
  });
  await new Promise((resolve) => server.bind(0, "127.0.0.1", resolve));
  await question(server.address().port).catch(() => {});
  server.close();
}

(async () => {
  await ask("source-server-query, information", (port) => source.info("127.0.0.1", port, 1000), CHALLENGE, INFORMATION);
  await ask("source-server-query, players", (port) => source.players("127.0.0.1", port, 1000), CHALLENGE, PLAYERS);
  await ask("steam-server-query, information", (port) => steam.queryGameServerInfo(`127.0.0.1:${port}`, 1, 1000), CHALLENGE, INFORMATION);
  const name = "steam-server-query, players of a server without challenges";
  await ask(name, (port) => steam.queryGameServerPlayer(`127.0.0.1:${port}`, 1, 1000), PLAYERS, PLAYERS);
  process.exit();
})();
J
node ask.js | tee seen
cmp - seen <<'END'
source-server-query, information: 54536f7572636520456e67696e6520517565727900ffffffff
source-server-query, information: 54536f7572636520456e67696e652051756572790001020304ffffffff
source-server-query, players: 55ffffffff
source-server-query, players: 5501020304ffffffff
steam-server-query, information: 54536f7572636520456e67696e6520517565727900
steam-server-query, information: 54536f7572636520456e67696e652051756572790001020304
steam-server-query, players of a server without challenges: 55ffffffff
steam-server-query, players of a server without challenges: 5501006d650000000000000000
END
