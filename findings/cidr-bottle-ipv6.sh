#!/usr/bin/env bash
# CIDR-Bottle takes no IPv6 network, also not in a bottle of ::/0.
#
# CIDR-Bottle 1.5.3 from PyPI, with CIDR-Man 1.5.4. Its README says that a bottle made with an IPv6 network is in IPv6 mode. A
# bottle of ::/0 should take 2001:db8::/32 and find it, as a bottle of 0.0.0.0/0 does with 192.0.2.0/24. Each insertion of an
# IPv6 network is an error about an incompatible version.
#
# Output seen:
#   192.0.2.0/24 in 0.0.0.0/0: found
#   2001:db8::/32 in ::/0: ValueError: incompatible network version
#   2001:db8:1::/48 in 2001:db8::/32: ValueError: incompatible network version
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check CIDR-Bottle==1.5.3 CIDR-Man==1.5.4
venv/bin/python - <<'P' | tee seen
from cidr_bottle import Bottle

for root, network in [("0.0.0.0/0", "192.0.2.0/24"), ("::/0", "2001:db8::/32"), ("2001:db8::/32", "2001:db8:1::/48")]:
    bottle = Bottle(root)
    try:
        bottle.insert(network, "found")
        seen = bottle.get(network).value
    except ValueError as error:
        seen = f"ValueError: {error}"
    print(f"{network} in {root}: {seen}")
P
cmp - seen <<'END'
192.0.2.0/24 in 0.0.0.0/0: found
2001:db8::/32 in ::/0: ValueError: incompatible network version
2001:db8:1::/48 in 2001:db8::/32: ValueError: incompatible network version
END
