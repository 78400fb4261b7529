#!/usr/bin/env bash
# ip-sub returns prefixes outside a network as its more specific ones.
#
# ip-sub 1.9.0 from npm, "getAllMorespecificPrefixes". 192.0.2.0/30 has six more specific prefixes: two of length 31 and four of
# length 32. Those of another network should not be among them. The function returns prefixes of the whole 192.0.2.0/24, of
# which its own "isSubnet" says that they are not in the network.
#
# Output seen:
#   192.0.2.0/30: 383 prefixes, in it: 6, first outside: 192.0.2.4/31
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install ip-sub@1.9.0 --silent --no-audit --no-fund
cat >inside.js <<'J'
import ipSub from "ip-sub";

const network = "192.0.2.0/30";
const prefixes = ipSub.getAllMorespecificPrefixes(network);
const outside = prefixes.filter((prefix) => !ipSub.isSubnet(network, prefix));
console.log(`${network}: ${prefixes.length} prefixes, in it: ${prefixes.length - outside.length}, first outside: ${outside[0]}`);
J
node inside.js | tee seen
cmp - seen <<'END'
192.0.2.0/30: 383 prefixes, in it: 6, first outside: 192.0.2.4/31
END
