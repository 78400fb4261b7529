#!/usr/bin/env bash
# ipfunctions says that the network 192.0.2.0/29 begins at -64.-256.-254.0.
#
# ipfunctions 0.1.0 and cidr-js 2.3.1 from npm. cidrToRange() should return the first and the last address, as range() of cidr-js
# does. Networks from 128.0.0.0 on get negative numbers. Of 192.0.2.5/29 the last address is 192.0.2.12, as if the network began
# at .5: five addresses are outside of it. Networks below 128.0.0.0 that are written with their first address are right.
#
# Output seen:
#   100.64.0.0/10: ipfunctions 100.64.0.0 to 100.127.255.255, cidr-js 100.64.0.0 to 100.127.255.255
#   100.64.0.5/29: ipfunctions 100.64.0.0 to 100.64.0.12, cidr-js 100.64.0.0 to 100.64.0.7
#   128.0.0.0/1: ipfunctions -128.0.0.0 to 255.255.255.255, cidr-js 128.0.0.0 to 255.255.255.255
#   192.0.2.0/29: ipfunctions -64.-256.-254.0 to 192.0.2.7, cidr-js 192.0.2.0 to 192.0.2.7
#   192.0.2.5/29: ipfunctions -64.-256.-254.0 to 192.0.2.12, cidr-js 192.0.2.0 to 192.0.2.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install ipfunctions@0.1.0 cidr-js@2.3.1 --silent --no-audit --no-fund
cat >range.js <<'J'
const Cidr = require("cidr-js");
const { cidrToRange } = require("ipfunctions");

for (const network of ["100.64.0.0/10", "100.64.0.5/29", "128.0.0.0/1", "192.0.2.0/29", "192.0.2.5/29"]) {
  const { start, end } = new Cidr().range(network);
  console.log(`${network}: ipfunctions ${cidrToRange(network).join(" to ")}, cidr-js ${start} to ${end}`);
}
J
node range.js | tee seen
cmp - seen <<'END'
100.64.0.0/10: ipfunctions 100.64.0.0 to 100.127.255.255, cidr-js 100.64.0.0 to 100.127.255.255
100.64.0.5/29: ipfunctions 100.64.0.0 to 100.64.0.12, cidr-js 100.64.0.0 to 100.64.0.7
128.0.0.0/1: ipfunctions -128.0.0.0 to 255.255.255.255, cidr-js 128.0.0.0 to 255.255.255.255
192.0.2.0/29: ipfunctions -64.-256.-254.0 to 192.0.2.7, cidr-js 192.0.2.0 to 192.0.2.7
192.0.2.5/29: ipfunctions -64.-256.-254.0 to 192.0.2.12, cidr-js 192.0.2.0 to 192.0.2.7
END
