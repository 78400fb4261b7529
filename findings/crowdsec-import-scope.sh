#!/usr/bin/env bash
# CrowdSec ignores the column "scope" of a list that is imported: every row becomes a decision of scope "Ip".
#
# crowdsec 1.4.6-6~deb12u1+b1 of Debian 12. The row "192.0.2.0/24,4h,range,ban" of a CSV file with the header
# "value,duration,scope,type" should be a decision of scope "Range". The local API gives it as scope "Ip" with a prefix as
# its value, so a bouncer that reads the scope takes it for one address.
#
# Output seen:  ('Ip', '192.0.2.0/24')
set -euo pipefail
package=crowdsec=1.4.6-6~deb12u1+b1
# shellcheck source=shared/crowdsec-server.sh
source "$(dirname "$0")/shared/crowdsec-server.sh"

printf 'value,duration,scope,type,reason\n192.0.2.0/24,4h,range,ban,example\n' >list.csv
cscli decisions import -i list.csv 2>&1 | grep '1 decisions successfully imported'
decisions | tee seen
test "$(cat seen)" = "('Ip', '192.0.2.0/24')"
