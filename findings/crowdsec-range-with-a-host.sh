#!/usr/bin/env bash
# CrowdSec hands out a ban of the range 198.51.100.7/24 as it was typed, and Python's ipaddress refuses this as a network.
#
# crowdsec 1.4.6-6~deb12u1+b1 of Debian 12. "cscli decisions add --range 198.51.100.7/24" should be refused, or become a
# decision about 198.51.100.0/24, as CrowdSec itself treats it: it finds it for 198.51.100.200. The API gives the text, so that
# a bouncer which parses networks strictly fails, and the same network under its own address is a second decision.
#
# Output seen:
#   for 198.51.100.200: ['198.51.100.7/24', '198.51.100.0/24']
#   198.51.100.7/24: ValueError: 198.51.100.7/24 has host bits set
#   198.51.100.0/24: a network
set -euo pipefail
package=crowdsec=1.4.6-6~deb12u1+b1
# shellcheck source=shared/crowdsec-server.sh
source "$(dirname "$0")/shared/crowdsec-server.sh"

for range in 198.51.100.7/24 198.51.100.0/24; do
  cscli decisions add --range "$range" --duration 1h 2>&1 | grep --quiet 'successfully added'
done
cat >read.py <<'P'
import ipaddress, json, sys

values = [decision["value"] for decision in json.load(sys.stdin)]
print("for 198.51.100.200:", values)
for value in values:
    try:
        ipaddress.ip_network(value)
        print(f"{value}: a network")
    except ValueError as error:
        print(f"{value}: ValueError: {error}")
P
curl -sS -H 'X-Api-Key: a-key' "http://127.0.0.1:$port/v1/decisions?ip=198.51.100.200" | python3 read.py | tee seen
cmp - seen <<'END'
for 198.51.100.200: ['198.51.100.7/24', '198.51.100.0/24']
198.51.100.7/24: ValueError: 198.51.100.7/24 has host bits set
198.51.100.0/24: a network
END
