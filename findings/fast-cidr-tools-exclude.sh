#!/usr/bin/env bash
# fast-cidr-tools leaves an address in a list although it excludes the address's network.
#
# fast-cidr-tools 0.3.4 from npm, "exclude(list, networks)". Excluding 192.0.2.0/24 from addresses of this network should leave
# nothing, as with cidr-tools 11.3.2. It leaves every second one: an entry that is excluded wholly is removed from the list
# that the loop goes through, and the loop misses the next entry.
#
# Output seen:
#   cidr-tools: []
#   fast-cidr-tools: ["192.0.2.3/32","192.0.2.7/32"]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install fast-cidr-tools@0.3.4 cidr-tools@11.3.2 --silent --no-audit --no-fund
cat >exclude.js <<'J'
import { excludeCidr } from "cidr-tools";
import { exclude } from "fast-cidr-tools";

const list = ["192.0.2.1/32", "192.0.2.3/32", "192.0.2.5/32", "192.0.2.7/32"];
console.log("cidr-tools:", JSON.stringify(excludeCidr(list, ["192.0.2.0/24"])));
console.log("fast-cidr-tools:", JSON.stringify(exclude(list, ["192.0.2.0/24"])));
J
node exclude.js | tee seen
cmp - seen <<'END'
cidr-tools: []
fast-cidr-tools: ["192.0.2.3/32","192.0.2.7/32"]
END
