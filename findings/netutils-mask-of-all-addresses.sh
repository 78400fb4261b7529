#!/usr/bin/env bash
# The Python library netutils refuses the mask 0.0.0.0 that it made itself.
#
# netutils 1.19.2 from PyPI. cidr_to_netmask() makes a mask of a length, and netmask_to_cidr() should make the length of each such mask.
# It does for 1 to 32. For 0 the mask is 0.0.0.0, as Python's ipaddress has it, and is_netmask() and netmask_to_cidr() call it
# invalid. A configuration with a default route is refused.
#
# Output seen:
#   32: 255.255.255.255, mask: True, length: 32
#   1: 128.0.0.0, mask: True, length: 1
#   0: 0.0.0.0, mask: False, length: Subnet mask is not valid.
#   ipaddress, 0.0.0.0/0.0.0.0: 0.0.0.0/0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netutils==1.19.2
venv/bin/python - <<'P' | tee seen
import ipaddress

from netutils.ip import cidr_to_netmask, is_netmask, netmask_to_cidr


def length(mask):
    try:
        return netmask_to_cidr(mask)
    except ValueError as error:
        return error


for bits in (32, 1, 0):
    mask = cidr_to_netmask(bits)
    print(f"{bits}: {mask}, mask: {is_netmask(mask)}, length: {length(mask)}")
print("ipaddress, 0.0.0.0/0.0.0.0:", ipaddress.ip_network("0.0.0.0/0.0.0.0"))
P
cmp - seen <<'END'
32: 255.255.255.255, mask: True, length: 32
1: 128.0.0.0, mask: True, length: 1
0: 0.0.0.0, mask: False, length: Subnet mask is not valid.
ipaddress, 0.0.0.0/0.0.0.0: 0.0.0.0/0
END
