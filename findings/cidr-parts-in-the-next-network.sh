#!/usr/bin/env bash
# cidr-split and cidr-block divide 192.0.2.200/24 into parts that are in the next network.
#
# cidr-split 0.1.2, cidr-block 2.3.0 and ip-num 1.6.2 from npm. A network may be written with one of its hosts, and its halves
# should be those of 192.0.2.0/24, as with ip-num, or the text should be refused. cidr-split and cidr-block count from the host:
# half of the addresses are outside of the network. cidr-split also refuses to divide a /31, which has two halves of length 32.
#
# Output seen:
#   192.0.2.200/24 by cidr-split: 192.0.2.200/25 192.0.3.72/25
#   192.0.2.200/24 by cidr-block: 192.0.2.200/25 192.0.3.72/25
#   192.0.2.200/24 by ip-num: 192.0.2.0/25 192.0.2.128/25
#   192.0.2.0/31 by cidr-split: Not enough address space to split.
#   192.0.2.0/31 by cidr-block: 192.0.2.0/32 192.0.2.1/32
#   192.0.2.0/31 by ip-num: 192.0.2.0/32 192.0.2.1/32
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install cidr-split@0.1.2 cidr-block@2.3.0 ip-num@1.6.2 --silent --no-audit --no-fund
cat >halves.js <<'J'
const halves = {
  "cidr-split": (network) => require("cidr-split").fromString(network).split(),
  "cidr-block": (network) => require("cidr-block").ipv4.cidr(network).subnet(Number(network.split("/")[1]) + 1),
  "ip-num": (network) => require("ip-num").IPv4CidrRange.fromCidr(network).split().map((half) => half.toCidrString()),
};
for (const network of ["192.0.2.200/24", "192.0.2.0/31"]) {
  for (const [library, divide] of Object.entries(halves)) {
    let seen;
    try {
      seen = divide(network).map(String).join(" ");
    } catch (error) {
      seen = error.message;
    }
    console.log(`${network} by ${library}: ${seen}`);
  }
}
J
node halves.js | tee seen
cmp - seen <<'END'
192.0.2.200/24 by cidr-split: 192.0.2.200/25 192.0.3.72/25
192.0.2.200/24 by cidr-block: 192.0.2.200/25 192.0.3.72/25
192.0.2.200/24 by ip-num: 192.0.2.0/25 192.0.2.128/25
192.0.2.0/31 by cidr-split: Not enough address space to split.
192.0.2.0/31 by cidr-block: 192.0.2.0/32 192.0.2.1/32
192.0.2.0/31 by ip-num: 192.0.2.0/32 192.0.2.1/32
END
