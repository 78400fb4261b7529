#!/usr/bin/env bash
# The number 1099511627776 of one MMDB record is a BigInt, a text or a number, depending on the reader.
#
# mmdb_writer 0.2.7 and maxminddb 3.2.0 from PyPI, maxmind 5.0.7 and mmdb-reader 1.2.0 from npm. A count of bytes, 2^40, is
# written as uint64. JavaScript's numbers hold it exactly, so that both npm readers should give a number, as they do for 2^31.
# maxmind gives a BigInt, which JSON.stringify refuses and which cannot be added to a number; mmdb-reader gives a text, and "+
# 1" appends a digit.
#
# Output seen:
#   maxminddb (Python): int, int
#   maxmind: number, bigint; bytes + 1: TypeError, as JSON: TypeError
#   mmdb-reader: number, string; bytes + 1: 10995116277761, as JSON: "1099511627776"
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

writer = MMDBWriter(4, "counts", int_type="auto")
writer.insert_network(IPSet(["192.0.2.0/24"]), {"packets": 2**31, "bytes": 2**40})
writer.to_db_file("counts.mmdb")
with maxminddb.open_database("counts.mmdb") as reader:
    record = reader.get("192.0.2.7")
print(f"maxminddb (Python): {type(record['packets']).__name__}, {type(record['bytes']).__name__}")
P
cat >read.js <<'J'
import { open } from "maxmind";
import MMDBReader from "mmdb-reader";

const attempt = (compute) => {
  try {
    return compute();
  } catch (error) {
    return error.name;
  }
};
const records = {
  maxmind: (await open("counts.mmdb")).get("192.0.2.7"),
  "mmdb-reader": new MMDBReader("counts.mmdb").lookup("192.0.2.7"),
};
for (const [name, { packets, bytes }] of Object.entries(records)) {
  const sum = attempt(() => bytes + 1);
  const json = attempt(() => JSON.stringify(bytes));
  console.log(`${name}: ${typeof packets}, ${typeof bytes}; bytes + 1: ${sum}, as JSON: ${json}`);
}
J
{
  venv/bin/python write.py
  node read.js
} | tee seen
cmp - seen <<'END'
maxminddb (Python): int, int
maxmind: number, bigint; bytes + 1: TypeError, as JSON: TypeError
mmdb-reader: number, string; bytes + 1: 10995116277761, as JSON: "1099511627776"
END
