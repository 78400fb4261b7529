#!/usr/bin/env bash
# mmdb_writer forgets a network if a wider one is inserted after it.
#
# mmdb_writer 0.2.7 and maxminddb 3.2.0 from PyPI. A database gets records for 192.0.2.0/24 and for 192.0.2.7/32. The address
# 192.0.2.7 should have the record of its own, as a lookup takes the longest prefix, in whatever order they are inserted. If the
# /24 comes second, the record of the /32 is gone without a word.
#
# Output seen:
#   192.0.2.0/24, then 192.0.2.7/32: ('own', 32)
#   192.0.2.7/32, then 192.0.2.0/24: ('network', 24)
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

RECORDS = {"192.0.2.0/24": "network", "192.0.2.7/32": "own"}
for order in [["192.0.2.0/24", "192.0.2.7/32"], ["192.0.2.7/32", "192.0.2.0/24"]]:
    writer = MMDBWriter(4, "networks")
    for network in order:
        writer.insert_network(IPSet([network]), RECORDS[network])
    writer.to_db_file("networks.mmdb")
    with maxminddb.open_database("networks.mmdb") as reader:
        print(f"{', then '.join(order)}: {reader.get_with_prefix_len('192.0.2.7')}")
P
cmp - seen <<'END'
192.0.2.0/24, then 192.0.2.7/32: ('own', 32)
192.0.2.7/32, then 192.0.2.0/24: ('network', 24)
END
