#!/usr/bin/env bash
# iptables-translate turns a hashlimit per second into a meter of nftables that never forgets an address.
#
# iptables 1.8.9-2 and nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. hashlimit forgets an address after a second
# without packets, if the rate is per second. The translation should have "timeout 1s", as it has "timeout 60s" for a rate per
# minute. It has no timeout: the meter keeps each address until it has 65,535 of them, or until the rule is deleted.
#
# Output seen:
#   per minute: meter finding { ip saddr timeout 60s
#   per second: meter finding { ip saddr limit rate over 10/second burst 10 packets } counter drop
#   nftables: one source: 10 of 100 packets pass
#   nftables: 3 s after 101 sources: 101 addresses
#   iptables: one source: 10 of 100 packets pass
#   iptables: 3 s after 101 sources: 0 addresses
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2 \
  nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
export XTABLES_LIBDIR=$LD_LIBRARY_PATH/xtables
tables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-$1-multi" "${@:2}"; }
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
ip netns add "$space"
ip -n "$space" link set lo up

cat >send.py <<'P'
import ipaddress
import socket
import sys

first, count, packets = ipaddress.ip_address(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((str(first + number), 0))
        for _ in range(packets):
            sender.sendto(b"x", ("127.0.0.1", 9))
P
send() { ip netns exec "$space" python3 send.py "$@"; }
rule=(INPUT -p udp --dport 9 -m hashlimit --hashlimit-above 10/sec --hashlimit-burst 10 --hashlimit-mode srcip
  --hashlimit-name finding -j DROP)
nft add table ip filter
nft 'add chain ip filter INPUT { type filter hook input priority 0; }'
nft 'add chain ip filter AFTER { type filter hook input priority 1; }'
nft 'add rule ip filter AFTER udp dport 9 counter'
passed() { # the packets that pass of 100 from one source
  before=$(nft list chain ip filter AFTER | sed -nE 's/.*packets ([0-9]+) .*/\1/p')
  send "$1" 1 100
  after=$(nft list chain ip filter AFTER | sed -nE 's/.*packets ([0-9]+) .*/\1/p')
  echo $((after - before))
}
{
  command=$(tables nft iptables-translate -A "${rule[@]}" | sed "s/^nft '//; s/'$//")
  echo "per minute: $(tables nft iptables-translate -A "${rule[@]/sec/min}" | grep -o 'meter.*timeout 60s')"
  echo "per second: $(grep -o 'meter.*' <<<"$command")"
  nft "$command"
  echo "nftables: one source: $(passed 127.1.0.1) of 100 packets pass"
  send 127.2.0.1 100 1
  sleep 3
  echo "nftables: 3 s after 101 sources: $(nft list meter ip filter finding | grep -o '127\.[12]\.' | wc -l) addresses"
  nft flush chain ip filter INPUT
  tables legacy iptables -A "${rule[@]}"
  echo "iptables: one source: $(passed 127.1.0.1) of 100 packets pass"
  send 127.2.0.1 100 1
  sleep 3
  echo "iptables: 3 s after 101 sources: $(ip netns exec "$space" cat /proc/net/ipt_hashlimit/finding | wc -l) addresses"
} | tee seen
cmp - seen <<'END'
per minute: meter finding { ip saddr timeout 60s
per second: meter finding { ip saddr limit rate over 10/second burst 10 packets } counter drop
nftables: one source: 10 of 100 packets pass
nftables: 3 s after 101 sources: 101 addresses
iptables: one source: 10 of 100 packets pass
iptables: 3 s after 101 sources: 0 addresses
END
