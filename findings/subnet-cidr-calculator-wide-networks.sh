#!/usr/bin/env bash
# subnet-cidr-calculator says that 10.0.0.0/8 and 10.0.48.0/20 do not overlap, and that 128.0.0.0/1 ends at 255.0.0.0.
#
# subnet-cidr-calculator 1.0.12 from npm. "isSubnetOverlap" should find the overlap of a network with a part of it, as it does for
# 10.0.32.0/19 and 10.0.32.0/20. "getIpRangeForSubnet" should give the first and the last address. The library does not find
# the overlap of a /8 with a /20, ends a network wider than /8 at the wrong address, and takes a host for the network's start.
#
# Output seen:
#   10.0.32.0/19 overlaps 10.0.32.0/20: 10.0.32.0/19
#   10.0.0.0/8 overlaps 10.0.48.0/20: false
#   192.0.2.0/24: 192.0.2.0 to 192.0.2.255
#   192.0.2.77/29: 192.0.2.77 to 192.0.2.84
#   128.0.0.0/1: 128.0.0.0 to 255.0.0.0
#   0.0.0.0/0: 0.0.0.0 to 0.0.0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install subnet-cidr-calculator@1.0.12 --silent --no-audit --no-fund
cat >networks.js <<'J'
const networks = require("subnet-cidr-calculator");
for (const [one, other] of [["10.0.32.0/19", "10.0.32.0/20"], ["10.0.0.0/8", "10.0.48.0/20"]]) {
  console.log(`${one} overlaps ${other}: ${networks.isSubnetOverlap([one], other)}`);
}
for (const network of ["192.0.2.0/24", "192.0.2.77/29", "128.0.0.0/1", "0.0.0.0/0"]) {
  const { start, end } = networks.getIpRangeForSubnet(network);
  console.log(`${network}: ${start} to ${end}`);
}
J
node networks.js | tee seen
cmp - seen <<'END'
10.0.32.0/19 overlaps 10.0.32.0/20: 10.0.32.0/19
10.0.0.0/8 overlaps 10.0.48.0/20: false
192.0.2.0/24: 192.0.2.0 to 192.0.2.255
192.0.2.77/29: 192.0.2.77 to 192.0.2.84
128.0.0.0/1: 128.0.0.0 to 255.0.0.0
0.0.0.0/0: 0.0.0.0 to 0.0.0.0
END
