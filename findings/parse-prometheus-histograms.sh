#!/usr/bin/env bash
# parse-prometheus-text-format returns one histogram without labels for a family of many.
#
# parse-prometheus-text-format 1.1.1 and prom-client 15.1.3 from npm. A family has a histogram of 1 observation for the device
# eth0 and one of 5 for eth1. The parser should return both, with their labels, as it returns gauges. It returns one, without
# labels, sum or count, and its buckets are those of the last: eth0 is lost.
#
# Output seen:
#   gauge: [{"value":"1","labels":{"device":"eth0"}},{"value":"5","labels":{"device":"eth1"}}]
#   histogram: [{"buckets":{"10":"5","+Inf":"5"}}]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install parse-prometheus-text-format@1.1.1 prom-client@15.1.3 --silent --no-audit --no-fund
cat >read.js <<'J'
import parser from "parse-prometheus-text-format";
import { Gauge, Histogram, register } from "prom-client";

const gauge = new Gauge({ name: "queue", help: "Packets in the queue", labelNames: ["device"] });
const histogram = new Histogram({ name: "delay", help: "Delay", labelNames: ["device"], buckets: [10] });
for (const [device, count] of [["eth0", 1], ["eth1", 5]]) {
  gauge.set({ device }, count);
  for (let packet = 0; packet < count; packet++) histogram.observe({ device }, 3);
}
const families = (parser.default ?? parser)(await register.metrics());
for (const { type, metrics } of families) console.log(`${type.toLowerCase()}: ${JSON.stringify(metrics)}`);
J
node read.js | tee seen
cmp - seen <<'END'
gauge: [{"value":"1","labels":{"device":"eth0"}},{"value":"5","labels":{"device":"eth1"}}]
histogram: [{"buckets":{"10":"5","+Inf":"5"}}]
END
