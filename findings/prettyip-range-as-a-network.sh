#!/usr/bin/env bash
# prettyip writes the four addresses 192.0.2.198 to 192.0.2.201 as the network 192.0.2.198/28.
#
# prettyip 1.1.4 from PyPI, with IPy 1.2, whose sets it prints. The four addresses should be "192.0.2.{198-201}", in the form that
# it uses for 192.0.2.8 to 192.0.2.12. They become a prefix of 16 addresses, which is not even a network: IPy refuses it. An
# operator who copies the text from a log bans 16 addresses, or gets an error.
#
# Output seen:
#   192.0.2.8 to 192.0.2.12: 192.0.2.{8-12}
#   192.0.2.198 to 192.0.2.201: 192.0.2.198/28
#   IP("192.0.2.198/28"): ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check prettyip==1.1.4 IPy==1.2
venv/bin/python - <<'P' | tee seen
from IPy import IP, IPSet
from prettyip import pretty_ipset

for first, last in [(8, 12), (198, 201)]:
    addresses = IPSet([IP(f"192.0.2.{host}") for host in range(first, last + 1)])
    print(f"192.0.2.{first} to 192.0.2.{last}: {pretty_ipset(addresses)}")
try:
    IP("192.0.2.198/28")
except ValueError:
    print('IP("192.0.2.198/28"): ValueError')
P
cmp - seen <<'END'
192.0.2.8 to 192.0.2.12: 192.0.2.{8-12}
192.0.2.198 to 192.0.2.201: 192.0.2.198/28
IP("192.0.2.198/28"): ValueError
END
