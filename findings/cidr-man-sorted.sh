#!/usr/bin/env bash
# sorted() of a list of CIDR-Man leaves separate networks in the order in which they came.
#
# CIDR-Man 1.5.4 from PyPI, which offers itself in place of Python's ipaddress. sorted() should give the order of ipaddress: by
# address, then by length. Its "<" means "contains": two separate networks are neither smaller nor greater, so that sorted() and
# min() are neither an order nor an error. Code that looks at neighbours in a sorted list, or searches by halves, is wrong then.
#
# Output seen:
#   ipaddress: 192.0.2.0/24 192.0.2.0/25 198.51.100.0/24 203.0.113.0/24
#   CIDR-Man: 203.0.113.0/24 198.51.100.0/24 192.0.2.0/24 192.0.2.0/25
#   min of CIDR-Man: 203.0.113.0/24
#   203.0.113.0/24 < 192.0.2.0/24: False, >: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check CIDR-Man==1.5.4
venv/bin/python - <<'P' | tee seen
from ipaddress import ip_network

from cidr_man import CIDR

NETWORKS = ["203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "192.0.2.0/25"]
print("ipaddress:", *sorted(map(ip_network, NETWORKS)))
print("CIDR-Man:", *sorted(map(CIDR, NETWORKS)))
print("min of CIDR-Man:", min(map(CIDR, NETWORKS)))
first, last = CIDR(NETWORKS[0]), CIDR(NETWORKS[2])
print(f"{first} < {last}: {first < last}, >: {first > last}")
P
cmp - seen <<'END'
ipaddress: 192.0.2.0/24 192.0.2.0/25 198.51.100.0/24 203.0.113.0/24
CIDR-Man: 203.0.113.0/24 198.51.100.0/24 192.0.2.0/24 192.0.2.0/25
min of CIDR-Man: 203.0.113.0/24
203.0.113.0/24 < 192.0.2.0/24: False, >: False
END
