#!/usr/bin/env bash
# insubnet and cidr_match do not find 192.0.2.7 in 192.0.2.200/24, and raise no error.
#
# insubnet 0.0.8, cidr_match 0.0.7 and is-in-subnet 4.0.1 from npm. A network may be written with one of its hosts, as "ip address"
# prints it. It should mean 192.0.2.0/24, as in is-in-subnet, or be refused. The two libraries mask the address and compare it with
# the network as it was written. A list of bans from such lines bans nobody, or only that host.
#
# Output seen:
#   192.0.2.7 in 192.0.2.0/24: insubnet true, cidr_match true, is-in-subnet true
#   192.0.2.200 in 192.0.2.0/24: insubnet true, cidr_match true, is-in-subnet true
#   192.0.2.7 in 192.0.2.200/24: insubnet false, cidr_match false, is-in-subnet true
#   192.0.2.200 in 192.0.2.200/24: insubnet false, cidr_match true, is-in-subnet true
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install insubnet@0.0.8 cidr_match@0.0.7 is-in-subnet@4.0.1 --silent --no-audit --no-fund
cat >match.js <<'J'
const { cidr_match: match } = require("cidr_match");
const insubnet = require("insubnet");
const { isInSubnet } = require("is-in-subnet");

for (const network of ["192.0.2.0/24", "192.0.2.200/24"]) {
  for (const address of ["192.0.2.7", "192.0.2.200"]) {
    const seen = `insubnet ${insubnet.Auto(address, network)}, cidr_match ${match(address, network)}`;
    console.log(`${address} in ${network}: ${seen}, is-in-subnet ${isInSubnet(address, network)}`);
  }
}
J
node match.js | tee seen
cmp - seen <<'END'
192.0.2.7 in 192.0.2.0/24: insubnet true, cidr_match true, is-in-subnet true
192.0.2.200 in 192.0.2.0/24: insubnet true, cidr_match true, is-in-subnet true
192.0.2.7 in 192.0.2.200/24: insubnet false, cidr_match false, is-in-subnet true
192.0.2.200 in 192.0.2.200/24: insubnet false, cidr_match true, is-in-subnet true
END
