#!/usr/bin/env bash
# CrowdSec's stream of decisions for one origin lacks an address that this origin bans, if another origin bans it for longer.
#
# crowdsec 1.4.6-6~deb12u1+b1 of Debian 12. An operator bans 192.0.2.7 for an hour ("cscli"), and an imported list has it for
# four ("cscli-import"). A bouncer that asks the stream for the origin "cscli" should get the operator's decision. It gets none:
# the server keeps the longest decision of each address first, and chooses by origin among these. "dedup=false" gives it.
#
# Output seen:
#   stream of cscli: []
#   without dedup: [('cscli', '192.0.2.7')]
set -euo pipefail
package=crowdsec=1.4.6-6~deb12u1+b1
# shellcheck source=shared/crowdsec-server.sh
source "$(dirname "$0")/shared/crowdsec-server.sh"

printf 'value,duration,scope,type,reason\n192.0.2.7,4h,ip,ban,example\n' >list.csv
cscli decisions import -i list.csv 2>&1 | grep --quiet '1 decisions successfully imported'
cscli decisions add --ip 192.0.2.7 --duration 1h 2>&1 | grep --quiet 'successfully added'
new() {
  curl -sS -H 'X-Api-Key: a-key' "http://127.0.0.1:$port/v1/decisions/stream?startup=true&origins=cscli$1" |
    python3 -c 'import json, sys; print([(d["origin"], d["value"]) for d in json.load(sys.stdin)["new"] or []])'
}
echo "stream of cscli: $(new '')" | tee seen
echo "without dedup: $(new '&dedup=false')" | tee -a seen
printf '%s\n' "stream of cscli: []" "without dedup: [('cscli', '192.0.2.7')]" | cmp - seen
