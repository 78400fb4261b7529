#!/usr/bin/env bash
# A rate from the JSON output of tc is an eighth of the rate if a script gives it back to tc.
#
# iproute2 6.1.0-3 of Debian 12; seen on Linux 6.18. tc reads a rate without a unit as bits per second. The JSON output prints
# the rate of a token bucket as a number without a unit. This number should be bits per second too. It is bytes per second:
# setting the rate that tc reports lowers it from 800 kbit/s to 100 kbit/s.
#
# Output seen:
#   text: rate 800Kbit
#   JSON: rate 100000
#   set to 100000: rate 100Kbit
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iproute2=6.1.0-3
dpkg-deb -x iproute2_*.deb root
tc() { "$folder/root/sbin/tc" -n "$space" "$@"; }
ip netns add "$space"
ip -n "$space" link add name end type veth peer name other
"$folder/root/sbin/tc" -V | tee version
grep -q 'iproute2-6\.1\.0' version

text() { tc qdisc show dev end | grep -o 'rate [^ ]*'; }
{
  tc qdisc add dev end root tbf rate 800kbit burst 10kb latency 50ms
  echo "text: $(text)"
  rate=$(tc -j qdisc show dev end | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["options"]["rate"])')
  echo "JSON: rate $rate"
  tc qdisc change dev end root tbf rate "$rate" burst 10kb latency 50ms
  echo "set to $rate: $(text)"
} | tee seen
cmp - seen <<'END'
text: rate 800Kbit
JSON: rate 100000
set to 100000: rate 100Kbit
END
