#!/usr/bin/env bash
# Forwarding on one IPv6 interface, even the loopback, removes the default routes of router advertisements of all others.
#
# Seen on Linux 6.18, with iproute2 6.1.0-3 of Debian 12. A host has learnt its default route by a router advertisement on eth0.
# net.ipv6.conf.lo.forwarding=1 should concern packets that come in through the loopback. eth0 stays a host by its own setting
# and by that for all interfaces, but its route is gone, and comes back only with the next advertisement.
#
# Output seen:
#   before: default via fe80::1 dev eth0 proto ra
#   eth0 forwards: 0, all: 0
#   after:
set -euo pipefail
folder=$(mktemp -d)
router=finding-router-$$
host=finding-host-$$
trap 'ip netns del "$router" 2>/dev/null || true; ip netns del "$host" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iproute2=6.1.0-3
dpkg-deb -x iproute2_*.deb root
ip() { "$folder/root/sbin/ip" "$@"; }
ip -V

ip netns add "$router"
ip netns add "$host"
ip link add name eth0 netns "$router" type veth peer name eth0 netns "$host"
for space in "$router" "$host"; do
  ip netns exec "$space" bash -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad'
  ip -n "$space" link set lo up
  ip -n "$space" link set eth0 up
done
ip -n "$router" address add fe80::1/64 dev eth0
sleep 2
ip netns exec "$router" python3 - <<'P'
import socket, struct

sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
sender.bind(("fe80::1", 0, 0, socket.if_nametoindex("eth0")))
sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
advertisement = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
sender.sendto(advertisement, ("ff02::1%eth0", 0))
P
sleep 1
default() { ip -n "$host" -6 route show default | sed -E 's/ metric.*//'; }
forwards() { ip netns exec "$host" cat "/proc/sys/net/ipv6/conf/$1/forwarding"; }
echo "before: $(default)" | tee before
test "$(cat before)" = "before: default via fe80::1 dev eth0 proto ra"
ip netns exec "$host" bash -c 'echo 1 >/proc/sys/net/ipv6/conf/lo/forwarding'
echo "eth0 forwards: $(forwards eth0), all: $(forwards all)" | tee settings
test "$(cat settings)" = "eth0 forwards: 0, all: 0"
echo "after: $(default)" | tee after
test "$(cat after)" = "after: "
