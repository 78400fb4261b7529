#!/usr/bin/env bash
# UDP counts a datagram that the firewall drops as a send buffer error, and tells the sender that it was sent.
#
# Seen on Linux 6.18, with nftables 1.0.6-2+deb12u2 of Debian 12. A rule of nftables' egress hook drops one datagram; the send
# buffer of the socket is empty. SndbufErrors should count full buffers. It counts the drop. sendto() returns success, or
# "No buffer space available" with IP_RECVERR. The same rule in the output hook gives an error that names the cause.
#
# Output seen:
#   output: Operation not permitted, SndbufErrors 0
#   output, IP_RECVERR: Operation not permitted, SndbufErrors 0
#   egress: sent, SndbufErrors 1
#   egress, IP_RECVERR: No buffer space available, SndbufErrors 1
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
rules() {
  printf '%s\n' 'flush ruleset' "table $1 finding {" 'chain drops {' "type filter hook $2 priority 0" 'udp dport 9 drop' '}' '}' |
    nft --file -
}
ip netns add "$space"
ip -n "$space" link set dev lo up

cat >send.py <<'P'
import os, socket, sys

IP_RECVERR = 11


def errors():
    with open("/proc/self/net/snmp") as file:
        names, values = [line.split() for line in file if line.startswith("Udp:")]
    return int(values[names.index("SndbufErrors")])


for told in (0, 1):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, IP_RECVERR, told)
    before = errors()
    try:
        sender.sendto(b"datagram", ("127.0.0.1", 9))
        result = "sent"
    except OSError as error:
        result = os.strerror(error.errno)
    print(f"{sys.argv[1]}{', IP_RECVERR' * told}: {result}, SndbufErrors {errors() - before}")
P
{
  rules ip output
  ip netns exec "$space" python3 send.py output
  rules netdev 'egress device lo'
  ip netns exec "$space" python3 send.py egress
} | tee seen
cmp - seen <<'END'
output: Operation not permitted, SndbufErrors 0
output, IP_RECVERR: Operation not permitted, SndbufErrors 0
egress: sent, SndbufErrors 1
egress, IP_RECVERR: No buffer space available, SndbufErrors 1
END
