#!/usr/bin/env bash
# "cscli decisions delete --ip ADDRESS" deletes the decisions about every network around the address.
#
# crowdsec 1.4.6-6~deb12u1+b1 of Debian 12. A decision bans 192.0.2.0/24. Deleting the decisions of --ip 192.0.2.7 should
# find none: no decision is about that address, and "--range" names networks. The ban of the whole /24 is deleted.
#
# Output seen:
#   before: ('Range', '192.0.2.0/24')
#   1 decision(s) deleted
#   after:
set -euo pipefail
package=crowdsec=1.4.6-6~deb12u1+b1
# shellcheck source=shared/crowdsec-server.sh
source "$(dirname "$0")/shared/crowdsec-server.sh"

cscli decisions add --range 192.0.2.0/24 --duration 1h 2>&1 | grep 'successfully added'
echo "before: $(decisions)" | tee before
test "$(cat before)" = "before: ('Range', '192.0.2.0/24')"
cscli decisions delete --ip 192.0.2.7 2>&1 | grep '1 decision(s) deleted'
echo "after: $(decisions)" | tee after
test "$(cat after)" = "after: "
