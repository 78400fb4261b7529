#!/usr/bin/env bash
# Three Python libraries read "10 Mbit" and "10 Mb" as megabits, as megabytes, as mebibytes or as an area.
#
# humanfriendly 10.0, bitmath 2.1.1 and Pint 0.25.3 from PyPI. A rate of a link is written in megabits, "10 Mbit" or "10 Mb", which
# are 1,250,000 bytes. humanfriendly looks at the first letter only and gives 10,000,000 bytes. bitmath reads bits, but 10 MiB if it
# is told not to be strict. For Pint "b" is the barn of nuclear physics: 10 Mb/s is an area per second. A limit from such a setting
# is eight times too high.
#
# Output seen:
#   "10 MB": humanfriendly: 10000000 bytes
#   "10 MB": bitmath: 10000000 bytes
#   "10 MB": bitmath, not strict: 10485760 bytes
#   "10 MB": Pint: 10000000.0 B
#   "10 Mbit": humanfriendly: 10000000 bytes
#   "10 Mbit": bitmath: refuses it
#   "10 Mbit": bitmath, not strict: refuses it
#   "10 Mbit": Pint: 10000000.0 bit
#   "10 Mb": humanfriendly: 10000000 bytes
#   "10 Mb": bitmath: 1250000 bytes
#   "10 Mb": bitmath, not strict: 10485760 bytes
#   "10 Mb": Pint: 1e-21 m ** 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check humanfriendly==10.0 bitmath==2.1.1 Pint==0.25.3
cat >read.py <<'P'
import bitmath, humanfriendly, pint

registry = pint.UnitRegistry()
READERS = {
    "humanfriendly": lambda text: f"{humanfriendly.parse_size(text)} bytes",
    "bitmath": lambda text: f"{bitmath.parse_string(text).bytes:.0f} bytes",
    "bitmath, not strict": lambda text: f"{bitmath.parse_string(text, strict=False).bytes:.0f} bytes",
    "Pint": lambda text: f"{registry(text).to_base_units():~}" if "b" in text.split()[1] else f"{registry(text).to('byte'):~}",
}
for text in ["10 MB", "10 Mbit", "10 Mb"]:
    for name, read in READERS.items():
        try:
            print(f'"{text}": {name}: {read(text)}')
        except ValueError:
            print(f'"{text}": {name}: refuses it')
P
venv/bin/python read.py | tee seen
cmp - seen <<'END'
"10 MB": humanfriendly: 10000000 bytes
"10 MB": bitmath: 10000000 bytes
"10 MB": bitmath, not strict: 10485760 bytes
"10 MB": Pint: 10000000.0 B
"10 Mbit": humanfriendly: 10000000 bytes
"10 Mbit": bitmath: refuses it
"10 Mbit": bitmath, not strict: refuses it
"10 Mbit": Pint: 10000000.0 bit
"10 Mb": humanfriendly: 10000000 bytes
"10 Mb": bitmath: 1250000 bytes
"10 Mb": bitmath, not strict: 10485760 bytes
"10 Mb": Pint: 1e-21 m ** 2
END
