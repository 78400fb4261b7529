#!/usr/bin/env bash
# ip-sub reads the network ::ffff:192.0.2.0/120 as another one, which it calls valid.
#
# ip-sub 1.9.0 from npm. IPv6 addresses may end in the dotted form of IPv4, and "isValidPrefix" says that this prefix is valid.
# Its range should be that of the same prefix in hexadecimal. It is ::ffff:0 to ::ffff:ff, which has none of the addresses
# 192.0.2.0 to 192.0.2.255. A server that listens on IPv6 writes its IPv4 clients in this form.
#
# Output seen:
#   ::ffff:c000:200/120: valid: true, 0:0:0:0:0:ffff:c000:200 to 0:0:0:0:0:ffff:c000:2ff
#   ::ffff:192.0.2.0/120: valid: true, 0:0:0:0:0:0:ffff:0 to 0:0:0:0:0:0:ffff:ff
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install ip-sub@1.9.0 --silent --no-audit --no-fund
cat >range.js <<'J'
import ipSub from "ip-sub";

for (const prefix of ["::ffff:c000:200/120", "::ffff:192.0.2.0/120"]) {
  console.log(`${prefix}: valid: ${ipSub.isValidPrefix(prefix)}, ${ipSub.cidrToRange(prefix).join(" to ")}`);
}
J
node range.js | tee seen
cmp - seen <<'END'
::ffff:c000:200/120: valid: true, 0:0:0:0:0:ffff:c000:200 to 0:0:0:0:0:ffff:c000:2ff
::ffff:192.0.2.0/120: valid: true, 0:0:0:0:0:0:ffff:0 to 0:0:0:0:0:0:ffff:ff
END
