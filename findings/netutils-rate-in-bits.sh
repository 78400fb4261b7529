#!/usr/bin/env bash
# The Python library netutils reads every rate in "bps" as 0.
#
# netutils 1.19.2 from PyPI, name_to_bits() and name_to_bytes(). They read names such as "10Kbps", and take "bps" and "Bps" for units:
# other texts are an error. 800bps should be 800 bits, or an error. It is 0, and so is 1500000bps: a limit or a speed that a
# configuration gives in plain bits per second is one at which nothing passes.
#
# Output seen:
#   1500Kbps: 1500000 bits, 187500.0 bytes
#   1500000bps: 0 bits, 0.0 bytes
#   800bps: 0 bits, 0.0 bytes
#   800xps: Speed of 800xps was not a valid speed representation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netutils==1.19.2
venv/bin/python - <<'P' | tee seen
from netutils.bandwidth import name_to_bits, name_to_bytes

for name in ["1500Kbps", "1500000bps", "800bps", "800xps"]:
    try:
        print(f"{name}: {name_to_bits(name)} bits, {name_to_bytes(name)} bytes")
    except ValueError as error:
        print(f"{name}: {error}")
P
cmp - seen <<'END'
1500Kbps: 1500000 bits, 187500.0 bytes
1500000bps: 0 bits, 0.0 bytes
800bps: 0 bits, 0.0 bytes
800xps: Speed of 800xps was not a valid speed representation.
END
