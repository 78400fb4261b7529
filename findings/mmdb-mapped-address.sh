#!/usr/bin/env bash
# One MMDB reader finds ::ffff:192.0.2.7 and not ::192.0.2.7 in a database, and the others find them the other way round.
#
# mmdb_writer 0.2.7 and maxminddb 3.2.0 from PyPI, maxmind 5.0.7 and mmdb-reader 1.2.0 from npm. An IPv6 database holds the IPv4
# network 192.0.2.0/24. A server that listens on IPv6 sees its IPv4 clients as ::ffff:192.0.2.7. All readers should find such an
# address, or none. mmdb-reader turns it into IPv4; the others find nothing, and say nothing: to them IPv4 is at ::192.0.2.7.
#
# Output seen:
#   maxminddb (Python): 192.0.2.7 found, ::ffff:192.0.2.7 not found, ::192.0.2.7 found
#   maxmind: 192.0.2.7 found, ::ffff:192.0.2.7 not found, ::192.0.2.7 found
#   mmdb-reader: 192.0.2.7 found, ::ffff:192.0.2.7 found, ::192.0.2.7 not found
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mmdb_writer==0.2.7 maxminddb==3.2.0 netaddr==1.3.0
echo '{ "private": true, "type": "module" }' >package.json
npm install maxmind@5.0.7 mmdb-reader@1.2.0 --silent --no-audit --no-fund
cat >write.py <<'P'
import maxminddb
from mmdb_writer import MMDBWriter
from netaddr import IPSet

writer = MMDBWriter(6, "networks", ipv4_compatible=True)
writer.insert_network(IPSet(["192.0.2.0/24"]), {"listed": True})
writer.to_db_file("networks.mmdb")
with maxminddb.open_database("networks.mmdb") as reader:
    found = [
        f"{address} {'found' if reader.get(address) else 'not found'}"
        for address in ["192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"]
    ]
print("maxminddb (Python):", ", ".join(found))
P
cat >read.js <<'J'
import { open } from "maxmind";
import MMDBReader from "mmdb-reader";

const maxmind = await open("networks.mmdb");
const other = new MMDBReader("networks.mmdb");
for (const [name, look] of [["maxmind", (address) => maxmind.get(address)], ["mmdb-reader", (address) => other.lookup(address)]]) {
  const found = ["192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"].map((address) => `${address} ${look(address) ? "found" : "not found"}`);
  console.log(`${name}: ${found.join(", ")}`);
}
J
{
  venv/bin/python write.py
  node read.js
} | tee seen
cmp - seen <<'END'
maxminddb (Python): 192.0.2.7 found, ::ffff:192.0.2.7 not found, ::192.0.2.7 found
maxmind: 192.0.2.7 found, ::ffff:192.0.2.7 not found, ::192.0.2.7 found
mmdb-reader: 192.0.2.7 found, ::ffff:192.0.2.7 found, ::192.0.2.7 not found
END
