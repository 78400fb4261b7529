#!/usr/bin/env bash
# IP2Location's own converter turns a name with quotes into a broken row: the next reader finds one name in two columns.
#
# ip2location-python-csv-converter 1.5.0 from PyPI. A quotation mark in a CSV field is doubled, and should be doubled again when
# the row is written. The converter reads it as it should, and writes single marks into the quotes. Python's csv then reads
# another name, and the part behind a comma as a field of its own, so that all columns to the right of it move.
#
# Output seen, as read by Python's csv:
#   numbers: ['3221225984', '3221226239', 'AU', 'Example "North", Ltd', '64496']
#   networks: ['192.0.2.0/24', 'AU', 'Example North"', ' Ltd"', '64496']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ip2location-python-csv-converter==1.5.0
cat >numbers.csv <<'C'
"3221225984","3221226239","AU","Example ""North"", Ltd","64496"
C
venv/bin/ip2location-csv-converter -cidr -replace numbers.csv networks.csv >/dev/null
for file in numbers networks; do
  python3 -c 'import csv; print("'$file':", *csv.reader(open("'$file'.csv", newline="")))'
done | tee seen
cmp - seen <<'END'
numbers: ['3221225984', '3221226239', 'AU', 'Example "North", Ltd', '64496']
networks: ['192.0.2.0/24', 'AU', 'Example North"', ' Ltd"', '64496']
END
