#!/usr/bin/env bash
# The usable addresses of a /31 run from its last address to its first in cidr-block and binip, and a /32 has -1 of them in binip.
#
# cidr-block 2.3.0 from npm, binip 1.0.2 and netexpand 0.9.0 from PyPI. Both addresses of a /31 are usable (RFC 3021), as netexpand
# prints them, or none is. cidr-block and binip take one address away at each end all the same: the first usable address is
# the last one of the network. binip counts -1 clients in a /32, and its sum over a list of hosts is negative.
#
# Output seen:
#   192.0.2.0/30: cidr-block 192.0.2.1 to 192.0.2.2, binip 192.0.2.1 to 192.0.2.2 (2), netexpand 192.0.2.1 192.0.2.2
#   192.0.2.6/31: cidr-block 192.0.2.7 to 192.0.2.6, binip 192.0.2.7 to 192.0.2.6 (0), netexpand 192.0.2.6 192.0.2.7
#   192.0.2.7/32: cidr-block undefined to undefined, binip 192.0.2.7 to 192.0.2.6 (-1), netexpand 192.0.2.7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install cidr-block@2.3.0 --silent --no-audit --no-fund
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check binip==1.0.2 netexpand==0.9.0
cat >usable.js <<'J'
const network = require("cidr-block").ipv4.cidr(process.argv[2]);
console.log(`${network.getFirstUsableAddress()} to ${network.getLastUsableAddress()}`);
J
cat >usable.py <<'P'
import sys

from binip.classes import Subnet

info = Subnet(sys.argv[1]).info
print(" to ".join(info["Range"]), f"({info['Clients']})")
P
for network in 192.0.2.0/30 192.0.2.6/31 192.0.2.7/32; do
  expanded=$(venv/bin/netexpand "$network" | xargs)
  echo "$network: cidr-block $(node usable.js "$network"), binip $(venv/bin/python usable.py "$network"), netexpand $expanded"
done | tee seen
cmp - seen <<'END'
192.0.2.0/30: cidr-block 192.0.2.1 to 192.0.2.2, binip 192.0.2.1 to 192.0.2.2 (2), netexpand 192.0.2.1 192.0.2.2
192.0.2.6/31: cidr-block 192.0.2.7 to 192.0.2.6, binip 192.0.2.7 to 192.0.2.6 (0), netexpand 192.0.2.6 192.0.2.7
192.0.2.7/32: cidr-block undefined to undefined, binip 192.0.2.7 to 192.0.2.6 (-1), netexpand 192.0.2.7
END
