#!/usr/bin/env bash
# ss does not find an IPv4 connection of an IPv6 socket by the address that it prints for it.
#
# iproute2 6.1.0-3 of Debian 12; seen on Linux 6.18. A server listens on [::], and a client connects from 127.0.0.2. ss prints the
# server's end with the peer [::ffff:127.0.0.2]. A filter by this address should find that line, as ::/0 does. It finds nothing,
# with status 0. Only the IPv4 form finds it, and -6, which lists the line, refuses that form. A count by source is 0.
#
# Output seen, lines that each filter finds:
#   -6: 1
#   dst 127.0.0.2: 1
#   -6 dst 127.0.0.2: refused
#   dst [::ffff:127.0.0.2]: 0
#   -6 dst [::ffff:127.0.0.2]: 0
#   dst ::/0: 1
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iproute2=6.1.0-3
dpkg-deb -x iproute2_*.deb root
ip netns add "$space"
ip -n "$space" link set lo up
cat >connection.py <<'P'
import socket
import subprocess
import sys

listener = socket.create_server(("::", 9000), family=socket.AF_INET6, dualstack_ipv6=True)
client = socket.create_connection(("127.0.0.1", 9000), source_address=("127.0.0.2", 0))
server, _ = listener.accept()
assert server.getpeername()[0] == "::ffff:127.0.0.2"
for filter in sys.stdin.read().splitlines():
    listed = subprocess.run([sys.argv[1], "-Hnt", *filter.split()], text=True, capture_output=True)
    print(f"{filter}: {len(listed.stdout.splitlines()) if listed.returncode == 0 else 'refused'}")
P
ip netns exec "$space" python3 connection.py "$folder/root/bin/ss" <<'FILTERS' | tee seen
-6
dst 127.0.0.2
-6 dst 127.0.0.2
dst [::ffff:127.0.0.2]
-6 dst [::ffff:127.0.0.2]
dst ::/0
FILTERS
cmp - seen <<'END'
-6: 1
dst 127.0.0.2: 1
-6 dst 127.0.0.2: refused
dst [::ffff:127.0.0.2]: 0
-6 dst [::ffff:127.0.0.2]: 0
dst ::/0: 1
END
