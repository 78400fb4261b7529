#!/usr/bin/env bash
# ratelimit-header-parser reads NaN from the newest headers of express-rate-limit, which has the same maintainers.
#
# ratelimit-header-parser 0.1.0 and express-rate-limit 8.7.5 from npm. The server may send its headers by draft 6, 7 or 8 of the
# IETF's draft. The parser should read all three, or return nothing for one that it does not know. For draft 8 it returns an
# object with the right fields, each NaN, and an invalid date: a client that waits while "remaining < 1" never waits.
#
# Output seen:
#   draft-6: limit 10, remaining 9, date valid: true
#   draft-7: limit 10, remaining 9, date valid: true
#   draft-8: limit NaN, remaining NaN, date valid: false
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install ratelimit-header-parser@0.1.0 express-rate-limit@8.7.5 express@5.3.0 --silent --no-audit --no-fund
cat >ask.js <<'J'
import express from "express";
import { rateLimit } from "express-rate-limit";
import { parseRateLimit } from "ratelimit-header-parser";

for (const standardHeaders of ["draft-6", "draft-7", "draft-8"]) {
  const server = express();
  server.use(rateLimit({ windowMs: 60_000, limit: 10, legacyHeaders: false, standardHeaders }));
  server.get("/", (request, response) => response.send("page"));
  const listener = server.listen(0, "127.0.0.1");
  await new Promise((done) => listener.once("listening", done));
  const { headers } = await fetch(`http://127.0.0.1:${listener.address().port}/`);
  const { limit, remaining, reset } = parseRateLimit(headers);
  console.log(`${standardHeaders}: limit ${limit}, remaining ${remaining}, date valid: ${!Number.isNaN(reset.getTime())}`);
  listener.close();
  listener.closeAllConnections();
}
J
node ask.js | tee seen
cmp - seen <<'END'
draft-6: limit 10, remaining 9, date valid: true
draft-7: limit 10, remaining 9, date valid: true
draft-8: limit NaN, remaining NaN, date valid: false
END
