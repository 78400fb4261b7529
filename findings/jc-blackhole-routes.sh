#!/usr/bin/env bash
# jc loses the networks of blackhole routes: the JSON has the word "blackhole" as the address.
#
# jc 1.26.1 from PyPI, and iproute2 6.1.0 of Debian 12. "ip route" prints "blackhole 198.51.100.0/24" for a network whose packets
# are thrown away, a usual way to block an address. The JSON of jc should name the network, as "ip -j route" does. It has
# "blackhole", "unreachable" or "prohibit" where the address of other routes is, and the network nowhere. A program that lists the
# blocked networks finds none.
#
# Output seen:
#   ip -j:  unicast 192.0.2.0/24  blackhole 198.51.100.0/24  unreachable 203.0.113.0/24
#   jc:  {'ip': '192.0.2.0/24', 'dev': 'lo', 'scope': 'link'}  {'ip': 'blackhole'}  {'ip': 'unreachable'}
set -euo pipefail
folder=$(mktemp -d)
network_namespace=findings-jc-$$
trap 'ip netns delete "$network_namespace"; rm -rf "$folder"' EXIT
ip netns add "$network_namespace"
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jc==1.26.1
in_namespace() { ip netns exec "$network_namespace" "$@"; }
in_namespace ip link set lo up
in_namespace ip route add 192.0.2.0/24 dev lo
in_namespace ip route add blackhole 198.51.100.0/24
in_namespace ip route add unreachable 203.0.113.0/24
in_namespace ip route | venv/bin/jc --ip-route >jc
in_namespace ip -j route >ip
python3 - <<'P' | tee seen
import json

print("ip -j:", *[f"{route.get('type', 'unicast')} {route['dst']}" for route in json.load(open("ip"))], sep="  ")
print("jc:", *json.load(open("jc")), sep="  ")
P
cmp - seen <<'END'
ip -j:  unicast 192.0.2.0/24  blackhole 198.51.100.0/24  unreachable 203.0.113.0/24
jc:  {'ip': '192.0.2.0/24', 'dev': 'lo', 'scope': 'link'}  {'ip': 'blackhole'}  {'ip': 'unreachable'}
END
