#!/usr/bin/env bash
# node-cidr's common network of two addresses leaves out one of them.
#
# node-cidr 1.0.0 from npm, "ip.commonCidr(addresses)". The smallest network around 192.0.2.1 and 192.0.2.2 should be
# 192.0.2.0/30. It is given as 192.0.2.0/31, which has .0 and .1, and that around .127 and .128 as a /31 with .126 and .127. The
# library's own "includes" says that one address is not in it. Other pairs, like .5 and .9, are right.
#
# Output seen:
#   192.0.2.5 and 192.0.2.9: 192.0.2.0/28, with both: true
#   192.0.2.1 and 192.0.2.2: 192.0.2.0/31, with both: false
#   192.0.2.127 and 192.0.2.128: 192.0.2.126/31, with both: false
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install node-cidr@1.0.0 --silent --no-audit --no-fund
cat >common.js <<'J'
import { cidr, ip } from "node-cidr";

for (const ends of [[5, 9], [1, 2], [127, 128]]) {
  const addresses = ends.map((end) => `192.0.2.${end}`);
  const network = ip.commonCidr(addresses);
  const both = addresses.every((address) => cidr.includes(network, address));
  console.log(`${addresses.join(" and ")}: ${network}, with both: ${both}`);
}
J
node common.js | tee seen
cmp - seen <<'END'
192.0.2.5 and 192.0.2.9: 192.0.2.0/28, with both: true
192.0.2.1 and 192.0.2.2: 192.0.2.0/31, with both: false
192.0.2.127 and 192.0.2.128: 192.0.2.126/31, with both: false
END
