#!/usr/bin/env bash
# hashlimit drops packets when its table is full, even in a rule that has no target.
#
# iptables 1.8.9-2 (legacy) of Debian 12; seen on Linux 6.18. The manual page calls --hashlimit-htable-max the "maximum
# entries in the hash". A rule without a target only counts, so all five sources should be received. The kernel's match
# sets "hotdrop" when it cannot add an entry: only the two sources that got one are received, and no counter of the rule
# names the others.
#
# Output seen:  received from: 127.0.0.1 127.0.0.2
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
iptables=$folder/root/usr/sbin/xtables-legacy-multi
"$iptables" iptables --version | tee version
grep -q 'v1\.8\.9 (legacy)' version

ip netns add "$space"
inside() { ip netns exec "$space" "$@"; }
inside ip link set lo up
inside "$iptables" iptables -A INPUT -p udp --dport 9000 -m hashlimit --hashlimit-above 1000/second \
  --hashlimit-mode srcip --hashlimit-name finding --hashlimit-htable-size 2 --hashlimit-htable-max 2
inside python3 - <<'P' | tee received
import socket

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 9000))
receiver.settimeout(1)
for last in range(1, 6):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((f"127.0.0.{last}", 0))
    sender.sendto(b"packet", ("127.0.0.1", 9000))
sources = []
try:
    while True:
        sources.append(receiver.recvfrom(16)[1][0])
except TimeoutError:
    print("received from:", *sources)
P
test "$(cat received)" = "received from: 127.0.0.1 127.0.0.2"
