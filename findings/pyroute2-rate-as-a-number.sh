#!/usr/bin/env bash
# pyroute2 sets eight times the rate if the rate is the number 1000000 and not the text "1000000".
#
# pyroute2 0.9.7 from PyPI, with tc of iproute2 6.1.0-3 of Debian 12; seen on Linux 6.18. A rate without a unit should mean the
# same as a number and as a text: bits per second, as in tc. The text is bits per second, the number is bytes per second. A rate
# that a program reads from JSON or YAML changes by quotation marks around it.
#
# Output seen:
#   pyroute2, rate=1000000: rate 8Mbit
#   pyroute2, rate='1000000': rate 1Mbit
#   tc, rate 1000000: rate 1Mbit
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyroute2==0.9.7
apt-get -o APT::Sandbox::User=root download -qq iproute2=6.1.0-3
dpkg-deb -x iproute2_*.deb root
tc() { "$folder/root/sbin/tc" -n "$space" "$@"; }
ip netns add "$space"
ip -n "$space" link add name end type veth peer name other
"$folder/root/sbin/tc" -V | tee version
grep -q 'iproute2-6\.1\.0' version

cat >set.py <<'P'
import sys

from pyroute2 import IPRoute

rate = {"number": 1_000_000, "text": "1000000"}[sys.argv[1]]
with IPRoute() as route:
    (end,) = route.link_lookup(ifname="end")
    route.tc("replace", "tbf", end, 0x10000, rate=rate, burst=10_000, latency="50ms")
print(f"pyroute2, rate={rate!r}", end=": ")
P
rate() { tc qdisc show dev end | grep -o 'rate [^ ]*'; }
{
  ip netns exec "$space" venv/bin/python set.py number
  rate
  ip netns exec "$space" venv/bin/python set.py text
  rate
  tc qdisc replace dev end root tbf rate 1000000 burst 10000 latency 50ms
  echo "tc, rate 1000000: $(rate)"
} | tee seen
cmp - seen <<'END'
pyroute2, rate=1000000: rate 8Mbit
pyroute2, rate='1000000': rate 1Mbit
tc, rate 1000000: rate 1Mbit
END
