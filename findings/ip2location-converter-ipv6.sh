#!/usr/bin/env bash
# IP2Location's own converter begins an IPv6 list with 0.0.0.0, and converts none of it to networks.
#
# ip2location-python-csv-converter 1.5.0 from PyPI. IP2Location's IPv6 lists give ranges as numbers. A first row from 0 to
# 281470681743359, which is :: to ::fffe:ffff:ffff, covers what is below the mapped IPv4 addresses. It should become these
# addresses, or the networks that cover them. The converter takes every number below 2^32 for IPv4: the range begins with
# 0.0.0.0, and "-cidr" ends with a Python error and no output. Without the first row the rest is right.
#
# Output seen:
#   -range of numbers.csv: status 0
#     "0.0.0.0","::fffe:ffff:ffff","-","-"
#     "2001:db8::","2001:db8:ffff:ffff:ffff:ffff:ffff:ffff","AU","Australia"
#   -cidr of numbers.csv: status 1, UnboundLocalError
#   -cidr of rest.csv: status 0
#     "2001:db8::/32","AU","Australia"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ip2location-python-csv-converter==1.5.0
cat >numbers.csv <<'C'
"0","281470681743359","-","-"
"42540766411282592856903984951653826560","42540766490510755371168322545197776895","AU","Australia"
C
tail -1 numbers.csv >rest.csv
try() { # option, file
  rm -f out.csv
  status=0
  venv/bin/ip2location-csv-converter "$1" -replace "$2" out.csv >text 2>&1 || status=1
  echo "$1 of $2: status $status$(grep -o '^UnboundLocalError' text | sed 's/^/, /')"
  [ ! -f out.csv ] || sed 's/\r//; s/^/  /' out.csv
}
{
  try -range numbers.csv
  try -cidr numbers.csv
  try -cidr rest.csv
} | tee seen
cmp - seen <<'END'
-range of numbers.csv: status 0
  "0.0.0.0","::fffe:ffff:ffff","-","-"
  "2001:db8::","2001:db8:ffff:ffff:ffff:ffff:ffff:ffff","AU","Australia"
-cidr of numbers.csv: status 1, UnboundLocalError
-cidr of rest.csv: status 0
  "2001:db8::/32","AU","Australia"
END
