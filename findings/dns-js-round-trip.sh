#!/usr/bin/env bash
# dns-js writes an AAAA record without its address, numbers the strings of a TXT record, and refuses queries with EDNS.
#
# dns-js 0.3.1 and dns-packet 5.6.1 from npm. A message that is read and written should be the same, as with dns-packet. dns-js
# reads the address and writes no data for it. It puts "0=" and "1=" before the strings of a TXT record. It refuses each message
# with an OPT record as "not implemented", and resolvers and dig send one with every query.
#
# Output seen, with the length and the data of a record that differs:
#   A record: dns-js the same, dns-packet the same
#   AAAA record: dns-js 0000, dns-packet the same
#   TXT record: dns-js 000a04303d616204313d6364, dns-packet the same
#   query with EDNS: dns-js Not implemented recordtype, dns-packet the same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install dns-js@0.3.1 dns-packet@5.6.1 --silent --no-audit --no-fund
cat >round.js <<'J'
const { DNSPacket } = require("dns-js");
const packet = require("dns-packet");

const NAME = "03777777076578616d706c6500";
const messages = {
  "A record": `000181800001000100000000${NAME}00010001 c00c000100010000003c0004c0000201`,
  "AAAA record": `000181800001000100000000${NAME}001c0001 c00c001c00010000003c001020010db8000000000000000000000001`,
  "TXT record": `000181800001000100000000${NAME}00100001 c00c001000010000003c0006026162026364`,
  "query with EDNS": `000101000001000000000001${NAME}00010001 00002904d0000000000000`,
};
const libraries = {
  "dns-js": (message) => DNSPacket.toBuffer(DNSPacket.parse(message)),
  "dns-packet": (message) => packet.encode(packet.decode(message)),
};
/** The length and the data behind the time to live of the record, or the whole message. */
const data = (message) => message.toString("hex").split("0000003c").at(-1);
for (const [name, text] of Object.entries(messages)) {
  const message = Buffer.from(text.replaceAll(" ", ""), "hex");
  const seen = Object.entries(libraries).map(([library, round]) => {
    try {
      const written = data(round(message));
      return `${library} ${written === data(message) ? "the same" : written}`;
    } catch (error) {
      return `${library} ${error.message ?? error}`;
    }
  });
  console.log(`${name}: ${seen.join(", ")}`);
}
J
node round.js | tee seen
cmp - seen <<'END'
A record: dns-js the same, dns-packet the same
AAAA record: dns-js 0000, dns-packet the same
TXT record: dns-js 000a04303d616204313d6364, dns-packet the same
query with EDNS: dns-js Not implemented recordtype, dns-packet the same
END
