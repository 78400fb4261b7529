#!/usr/bin/env bash
# tc lists the burst of a fast token bucket as 0 bytes, and refuses this listing as input.
#
# iproute2 6.1.0-3 of Debian 12; seen on Linux 6.18. A bucket of 100 Gbit/s gets a burst of 10,000 bytes. The listing should say
# so, as it does at 100 Mbit/s and 1 Gbit/s. tc computes the bytes from a time in whole microseconds, and 10,000 bytes last 0.8 µs
# at this rate. At 10 Gbit/s an eighth is missing. A script that saves the listing and sets it again changes the burst, or fails.
#
# Output seen:
#   100mbit: burst 10000b
#   1gbit: burst 10000b
#   10gbit: burst 8750b
#   40gbit: burst 5000b
#   100gbit: burst 0b
#   the last one set again: tbf: the "burst" parameter is mandatory.
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
{
  for rate in 100mbit 1gbit 10gbit 40gbit 100gbit; do
    tc qdisc replace dev end root tbf rate "$rate" burst 10000 latency 1ms
    echo "$rate: $(tc qdisc show dev end | grep -o 'burst [^ ]*')"
  done
  read -ra listed < <(tc qdisc show dev end | grep -o 'rate .*' | sed 's/ lat / latency /')
  echo "the last one set again: $(tc qdisc replace dev end root tbf "${listed[@]}" 2>&1 | head -1)"
} | tee seen
cmp - seen <<'END'
100mbit: burst 10000b
1gbit: burst 10000b
10gbit: burst 8750b
40gbit: burst 5000b
100gbit: burst 0b
the last one set again: tbf: the "burst" parameter is mandatory.
END
