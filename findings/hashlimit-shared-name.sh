#!/usr/bin/env bash
# A rule with hashlimit enforces the rate of another rule if both name the same table, and lists its own.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18. The first rule lets one datagram per minute pass, the second one 1,000 per
# second. Two rules may share a table by its name. The second should have its own rate, or be refused. The kernel takes it and
# lists its rate, but applies that of the first, because the rate belongs to the table: all ten datagrams are dropped.
#
# Output seen:
#   port 1001, table shared: limit 1/min, passed 1 of 10
#   port 1002, table shared: limit 1000/sec, passed 0 of 10
#   port 1003, table own: limit 1000/sec, passed 10 of 10
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
ip netns add "$space"
ip -n "$space" link set lo up
iptables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-legacy-multi" iptables "$@"; }
iptables --version | tee version
grep -q 'v1\.8\.9' version

rule() { # port, name of the table, rate, burst
  iptables -A OUTPUT -o lo -p udp --dport "$1" -m hashlimit --hashlimit-name "$2" --hashlimit-mode srcip \
    --hashlimit-upto "$3" --hashlimit-burst "$4" -j ACCEPT
  iptables -A OUTPUT -o lo -p udp --dport "$1" -j DROP
}
rule 1001 shared 1/minute 1
rule 1002 shared 1000/second 100
rule 1003 own 1000/second 100
ip netns exec "$space" python3 - <<'P'
import socket

sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in [1001, 1002, 1003]:
    for _ in range(10):
        try:
            sender.sendto(b"datagram", ("127.0.0.1", port))
        except OSError:  # The firewall, or the answer that nobody listens.
            pass
P
iptables -S OUTPUT -v >rules
limit='--hashlimit-upto ([^ ]+) .*--hashlimit-name ([^ ]+)'
sed -nE "s/.*--dport ([0-9]+) .*$limit -c ([0-9]+) .*/port \\1, table \\3: limit \\2, passed \\4 of 10/p" rules | tee seen
cmp - seen <<'END'
port 1001, table shared: limit 1/min, passed 1 of 10
port 1002, table shared: limit 1000/sec, passed 0 of 10
port 1003, table own: limit 1000/sec, passed 10 of 10
END
