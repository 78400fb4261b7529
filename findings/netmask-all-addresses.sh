#!/usr/bin/env bash
# netmask takes "0.0.0.0/0" as the network of all addresses, and the same with its mask or length apart as an error or a host.
#
# netmask 2.1.1 from npm. A network may be written with its length, with its mask, or with either of them as a second argument.
# All should give the network of all addresses, as they give a /24. The mask 0.0.0.0 is refused as invalid, and a length of 0 is
# taken for no length: the default for everyone becomes a rule for the one address 0.0.0.0. A mask as a number, which the README
# shows, is always refused.
#
# Output seen:
#   192.0.2.0/24: 192.0.2.0/24, 192.0.2.0/255.255.255.0: 192.0.2.0/24, length 24: 192.0.2.0/24
#   128.0.0.0/1: 128.0.0.0/1, 128.0.0.0/128.0.0.0: 128.0.0.0/1, length 1: 128.0.0.0/1
#   0.0.0.0/0: 0.0.0.0/0, 0.0.0.0/0.0.0.0: Invalid mask for ip4: 0.0.0.0, length 0: 0.0.0.0/32
#   mask 0xffffff00: Invalid mask for ip4: 4294967040
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install netmask@2.1.1 --silent --no-audit --no-fund
cat >read.js <<'J'
import netmask from "netmask";

function read(...text) {
  try {
    return String(new netmask.Netmask(...text));
  } catch (error) {
    return error.message;
  }
}
for (const [base, length, mask] of [
  ["192.0.2.0", 24, "255.255.255.0"],
  ["128.0.0.0", 1, "128.0.0.0"],
  ["0.0.0.0", 0, "0.0.0.0"],
]) {
  const texts = [`${base}/${length}`, `${base}/${mask}`].map((text) => `${text}: ${read(text)}`);
  console.log(`${texts.join(", ")}, length ${length}: ${read(base, length)}`);
}
console.log(`mask 0xffffff00: ${read("192.0.2.0", 0xffffff00)}`);
J
node read.js | tee seen
cmp - seen <<'END'
192.0.2.0/24: 192.0.2.0/24, 192.0.2.0/255.255.255.0: 192.0.2.0/24, length 24: 192.0.2.0/24
128.0.0.0/1: 128.0.0.0/1, 128.0.0.0/128.0.0.0: 128.0.0.0/1, length 1: 128.0.0.0/1
0.0.0.0/0: 0.0.0.0/0, 0.0.0.0/0.0.0.0: Invalid mask for ip4: 0.0.0.0, length 0: 0.0.0.0/32
mask 0xffffff00: Invalid mask for ip4: 4294967040
END
