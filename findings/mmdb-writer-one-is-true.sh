#!/usr/bin/env bash
# mmdb_writer writes the number 1 as true if the database already has true, and true as 1 in the other order.
#
# mmdb_writer 0.2.7 and maxminddb 3.2.0 from PyPI. One record has a boolean, another one the number of an autonomous system, a
# score or a count that happens to be 1. Both should keep their types, as a record of 2 does. The writer stores equal values
# once, and in Python 1 equals True: what is written first decides. So it is with 0 and false.
#
# Output seen:
#   true, then 1: {'listed': True} {'score': True}
#   1, then true: {'score': 1} {'listed': 1}
#   true, then 2: {'listed': True} {'score': 2}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mmdb_writer==0.2.7 maxminddb==3.2.0 netaddr==1.3.0
venv/bin/python - <<'P' | tee seen
import maxminddb
from mmdb_writer import MMDBWriter
from netaddr import IPSet

NETWORKS = ["192.0.2.0/24", "198.51.100.0/24"]
for name, records in [
    ("true, then 1", [{"listed": True}, {"score": 1}]),
    ("1, then true", [{"score": 1}, {"listed": True}]),
    ("true, then 2", [{"listed": True}, {"score": 2}]),
]:
    writer = MMDBWriter(4, "records")
    for network, record in zip(NETWORKS, records):
        writer.insert_network(IPSet([network]), record)
    writer.to_db_file("records.mmdb")
    with maxminddb.open_database("records.mmdb") as reader:
        print(f"{name}:", reader.get("192.0.2.7"), reader.get("198.51.100.7"))
P
cmp - seen <<'END'
true, then 1: {'listed': True} {'score': True}
1, then true: {'score': 1} {'listed': 1}
true, then 2: {'listed': True} {'score': 2}
END
