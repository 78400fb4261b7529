#!/usr/bin/env bash
# ip-cidr returns addresses outside a network for the part of it from one of its addresses to another.
#
# ip-cidr 4.0.2 from npm. "toArray({ from, to })" gives a part of a network, from one number or address to another. A network
# that is written with one of its hosts, 192.0.2.7/29, begins at 192.0.2.0, and the part from .3 to .5 should be the same as
# that of 192.0.2.0/29. It is right by numbers. By addresses it is in another network, 192.0.1.0/24: the library counts from .7
# on.
#
# Output seen:
#   192.0.2.0/29 begins at 192.0.2.0, 3 to 5: ["192.0.2.3","192.0.2.4"], .3 to .5: ["192.0.2.3","192.0.2.4"]
#   192.0.2.7/29 begins at 192.0.2.0, 3 to 5: ["192.0.2.3","192.0.2.4"], .3 to .5: ["192.0.1.252","192.0.1.253"]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install ip-cidr@4.0.2 --silent --no-audit --no-fund
cat >part.js <<'J'
import IPCIDR from "ip-cidr";

for (const text of ["192.0.2.0/29", "192.0.2.7/29"]) {
  const network = new IPCIDR(text);
  const numbers = JSON.stringify(network.toArray({ from: 3, to: 5 }));
  const addresses = JSON.stringify(network.toArray({ from: "192.0.2.3", to: "192.0.2.5" }));
  console.log(`${text} begins at ${network.start()}, 3 to 5: ${numbers}, .3 to .5: ${addresses}`);
}
J
node part.js | tee seen
cmp - seen <<'END'
192.0.2.0/29 begins at 192.0.2.0, 3 to 5: ["192.0.2.3","192.0.2.4"], .3 to .5: ["192.0.2.3","192.0.2.4"]
192.0.2.7/29 begins at 192.0.2.0, 3 to 5: ["192.0.2.3","192.0.2.4"], .3 to .5: ["192.0.1.252","192.0.1.253"]
END
