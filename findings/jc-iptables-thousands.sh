#!/usr/bin/env bash
# jc reads "120K" packets of iptables as 120 packets, and "96M" bytes in the same line as 96,000,000.
#
# jc 1.26.1 from PyPI, which turns the output of commands into JSON. "iptables -L -v" shortens large counters to thousands (K) and
# millions (M) unless -x is given. Both columns of a rule should be read alike: 120,000 packets of 800 bytes. jc multiplies the
# bytes and cuts the letter off the packets, so that a rule that drops a flood looks as if it had dropped almost nothing.
#
# Output seen:
#   192.0.2.7: 99999 packets, 80000000 bytes
#   192.0.2.8: 120 packets, 96000000 bytes
#   192.0.2.9: 12 packets, 9600000000 bytes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jc==1.26.1
cat >listing <<'L'
Chain INPUT (policy ACCEPT 99999 packets, 80M bytes)
 pkts bytes target     prot opt in     out     source               destination         
99999   80M DROP       udp  --  *      *       192.0.2.7            0.0.0.0/0            udp dpt:53
 120K   96M DROP       udp  --  *      *       192.0.2.8            0.0.0.0/0            udp dpt:53
  12M 9600M DROP       udp  --  *      *       192.0.2.9            0.0.0.0/0            udp dpt:53
L
venv/bin/jc --iptables <listing >json
python3 - <<'P' | tee seen
import json

for rule in json.load(open("json"))[0]["rules"]:
    print(f"{rule['source']}: {rule['pkts']} packets, {rule['bytes']} bytes")
P
cmp - seen <<'END'
192.0.2.7: 99999 packets, 80000000 bytes
192.0.2.8: 120 packets, 96000000 bytes
192.0.2.9: 12 packets, 9600000000 bytes
END
