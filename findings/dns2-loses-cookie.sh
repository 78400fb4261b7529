#!/usr/bin/env bash
# dns2 drops the cookie of a DNS query, and every EDNS option but the client subnet, when it writes what it read.
#
# dns2 3.0.0 and dns-packet 5.6.1 from npm. A proxy reads a query and writes it for the next server. The options of its OPT record should
# be the same, as with dns-packet, or the record be left out. dns2 keeps the record, with its size and flags, without the options:
# the server behind it thinks that the client has no cookie, and limits it as one whose address may be forged.
#
# Output seen:
#   client subnet: dns2 OPT with 11 bytes of options, dns-packet OPT with 11 bytes of options
#   cookie: dns2 OPT with 0 bytes of options, dns-packet OPT with 12 bytes of options
#   padding: dns2 OPT with 0 bytes of options, dns-packet OPT with 8 bytes of options
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install dns2@3.0.0 dns-packet@5.6.1 --silent --no-audit --no-fund
cat >rewrite.js <<'J'
import packet from "dns-packet";
import dns2 from "dns2";

const question = "\x03www\x07example\0\0\x01\0\x01";
for (const [name, option] of [
  ["client subnet", [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2]],
  ["cookie", [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]],
  ["padding", [0, 12, 0, 4, 0, 0, 0, 0]],
]) {
  const head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
  const opt = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, option.length];
  const query = Buffer.concat([Buffer.from(head), Buffer.from(question, "latin1"), Buffer.from([...opt, ...option])]);
  const written = { dns2: dns2.Packet.parse(query).toBuffer(), "dns-packet": packet.encode(packet.decode(query)) };
  const begin = head.length + question.length;
  const seen = Object.entries(written).map(([library, message]) => {
    const record = Buffer.from(message).subarray(begin);
    const bytes = record.readUInt16BE(9);
    if (record[2] !== 41 || record.length !== 11 + bytes) throw new Error(`${library} wrote something else`);
    return `${library} OPT with ${bytes} bytes of options`;
  });
  console.log(`${name}: ${seen.join(", ")}`);
}
J
node rewrite.js | tee seen
cmp - seen <<'END'
client subnet: dns2 OPT with 11 bytes of options, dns-packet OPT with 11 bytes of options
cookie: dns2 OPT with 0 bytes of options, dns-packet OPT with 12 bytes of options
padding: dns2 OPT with 0 bytes of options, dns-packet OPT with 8 bytes of options
END
