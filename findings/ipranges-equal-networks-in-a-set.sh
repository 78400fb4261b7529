#!/usr/bin/env bash
# Two networks of ipranges that are equal are two elements of a set, and a set of one does not have the other.
#
# ipranges 0.1.13 from PyPI. An address, a network and a range compare as equal if they have the same addresses. Python wants equal
# objects to have equal hashes, so that they are one key. Here the hash is of the text as it was given: 192.0.2.7/24 is equal to
# 192.0.2.0/24, and a dict or set of bans does not find it. A list of the same objects does.
#
# Output seen:
#   192.0.2.0/24 and 192.0.2.7/24: equal: True, in a list: True, in a set: False
#   192.0.2.7 and 192.0.2.7/32: equal: True, in a list: True, in a set: False
#   192.0.2.0/24 and 192.0.2.0-192.0.2.255: equal: True, in a list: True, in a set: False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ipranges==0.1.13
cat >sets.py <<'P'
from ipranges import from_str

PAIRS = ("192.0.2.0/24", "192.0.2.7/24"), ("192.0.2.7", "192.0.2.7/32"), ("192.0.2.0/24", "192.0.2.0-192.0.2.255")
for first, second in PAIRS:
    one, other = from_str(first), from_str(second)
    print(f"{first} and {second}: equal: {one == other}, in a list: {other in [one]}, in a set: {other in {one}}")
P
venv/bin/python sets.py | tee seen
cmp - seen <<'END'
192.0.2.0/24 and 192.0.2.7/24: equal: True, in a list: True, in a set: False
192.0.2.7 and 192.0.2.7/32: equal: True, in a list: True, in a set: False
192.0.2.0/24 and 192.0.2.0-192.0.2.255: equal: True, in a list: True, in a set: False
END
