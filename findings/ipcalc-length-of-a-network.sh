#!/usr/bin/env bash
# A network of the Python library ipcalc has 256 addresses by len() and by its indices, and 254 in a loop.
#
# ipcalc 1.99.0 from PyPI, with six 1.17.0. len(), indices and a loop should agree, as they do with Python's ipaddress: 256. The
# loop leaves out the first and the last address, which "in" and the indices have; networks of 2 and 1 addresses are whole. A
# list that is expanded in a loop lacks two addresses of each network, also where these are ordinary ones, as in a ban of a part
# of a subnet.
#
# Output seen:
#   192.0.2.0/24: len 256, loop 254, first [0] 192.0.2.0, first of the loop 192.0.2.1
#   192.0.2.0/30: len 4, loop 2, first [0] 192.0.2.0, first of the loop 192.0.2.1
#   192.0.2.0/31: len 2, loop 2, first [0] 192.0.2.0, first of the loop 192.0.2.0
#   ipaddress, 192.0.2.0/24: loop 256
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ipcalc==1.99.0 six==1.17.0
venv/bin/python - <<'P' | tee seen
import ipaddress

from ipcalc import Network

for text in ["192.0.2.0/24", "192.0.2.0/30", "192.0.2.0/31"]:
    network = Network(text)
    loop = list(network)
    print(f"{text}: len {len(network)}, loop {len(loop)}, first [0] {network[0]}, first of the loop {loop[0]}")
print(f"ipaddress, 192.0.2.0/24: loop {len(list(ipaddress.ip_network('192.0.2.0/24')))}")
P
cmp - seen <<'END'
192.0.2.0/24: len 256, loop 254, first [0] 192.0.2.0, first of the loop 192.0.2.1
192.0.2.0/30: len 4, loop 2, first [0] 192.0.2.0, first of the loop 192.0.2.1
192.0.2.0/31: len 2, loop 2, first [0] 192.0.2.0, first of the loop 192.0.2.0
ipaddress, 192.0.2.0/24: loop 256
END
