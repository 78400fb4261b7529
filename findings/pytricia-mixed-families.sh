#!/usr/bin/env bash
# A tree of pytricia takes prefixes of both families, and finds IPv4 prefixes for IPv6 addresses.
#
# pytricia 1.3.0 from PyPI. A tree of 128 bits holds 32.0.0.0/8. 2001:db8::1 is on no prefix, so the lookup should find nothing;
# or the tree should refuse to mix families. It compares the first bits: 0x20 is 32, so the address is "on" 32.0.0.0/8.
#
# Output seen:  2001:db8::1 is on 32.0.0.0/8
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pytricia==1.3.0
"$folder/venv/bin/python" - <<'P' | tee "$folder/printed"
from pytricia import PyTricia

tree = PyTricia(128)
tree["32.0.0.0/8"] = "listed"
tree["2001:db8:1::/48"] = "listed"
print("2001:db8::1 is on", tree.get_key("2001:db8::1"))
P
test "$(cat "$folder/printed")" = "2001:db8::1 is on 32.0.0.0/8"
