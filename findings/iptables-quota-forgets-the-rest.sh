#!/usr/bin/env bash
# A quota of iptables throws away what is left of it when a packet does not fit.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18. A quota of 500 bytes lets three datagrams of 128 bytes pass, and the fourth does not
# fit. 116 bytes are left, so that a datagram of 100 should pass after that. None does: the first packet that is too large ends the
# quota. One large packet right after the start takes the whole quota without using it, and the manual page does not say so.
#
# Output seen:
#   4 of 128, then 2 of 100: yyy- --
#   1 of 1000, then 2 of 100: - --
#   3 of 128, then 2 of 100: yyy y-
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
export XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
iptables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-nft-multi" iptables "$@"; }
ip netns add "$space"
ip -n "$space" link set lo up
cat >send.py <<'P'
import socket
import sys

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 7777))
receiver.settimeout(0.2)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
seen = []
for group in sys.argv[1:]:
    count, size = map(int, group.split("x"))
    passed = ""
    for _ in range(count):
        sender.sendto(bytes(size - 28), ("127.0.0.1", 7777))
        try:
            receiver.recv(2000)
            passed += "y"
        except TimeoutError:
            passed += "-"
    seen.append(passed)
print(*seen)
P
for groups in '4x128 2x100' '1x1000 2x100' '3x128 2x100'; do
  iptables -F INPUT
  iptables -A INPUT -p udp --dport 7777 -m quota --quota 500 -j ACCEPT
  iptables -A INPUT -p udp --dport 7777 -j DROP
  # shellcheck disable=SC2086
  echo "$(sed 's/x/ of /g; s/ \([0-9]* of [0-9]*\)$/, then \1/' <<<"$groups"): $(ip netns exec "$space" python3 send.py $groups)"
done | tee seen
cmp - seen <<'END'
4 of 128, then 2 of 100: yyy- --
1 of 1000, then 2 of 100: - --
3 of 128, then 2 of 100: yyy y-
END
