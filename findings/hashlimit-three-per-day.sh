#!/usr/bin/env bash
# hashlimit refuses three per day, and takes two per day but lets one packet pass of its burst of five.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18 with 250 ticks a second. The match has the units second, minute, hour and
# day, and a burst of 5 unless the rule names one. 4, 3 and 2 per day should each let five datagrams pass. The kernel keeps the
# burst as a time, in 64 bits that hold 37 hours. What goes beyond is cut off: the rule is listed with its burst of 5, and lets
# fewer pass; or, if less than one packet is left, the rule is refused with an error that does not name the burst.
#
# Output seen:
#   4/day: taken, burst 5, passed 5 of 5
#   3/day: Numerical result out of range
#   2/day: taken, burst 5, passed 1 of 5
#   1/hour --hashlimit-burst 100: taken, burst 100, passed 25 of 100
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
xtables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-legacy-multi" "$@"; }
xtables iptables --version | tee version
grep -q 'v1\.8\.9' version

number=0
try() { # rate, and possibly the option for the burst
  number=$((number + 1))
  xtables iptables -F
  if ! xtables iptables -A OUTPUT -p udp -m hashlimit --hashlimit-upto "$@" --hashlimit-name "table$number" -j ACCEPT 2>error; then
    echo "$*: $(sed -nE '1s/^iptables: (.*)\.$/\1/p' error)"
    return
  fi
  xtables iptables -A OUTPUT -p udp -j DROP
  burst=$(xtables iptables -S OUTPUT | sed -nE 's/.*--hashlimit-burst ([0-9]+).*/\1/p')
  ip netns exec "$space" python3 send.py "$burst"
  passed=$(xtables iptables -S OUTPUT -v | sed -nE 's/.* -c ([0-9]+) .*ACCEPT$/\1/p' | tail -1)
  echo "$*: taken, burst $burst, passed $passed of $burst"
}
cat >send.py <<'P'
import socket, sys

sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[1])):
    try:
        sender.sendto(b"datagram", ("127.0.0.1", 9))
    except OSError:  # The firewall, or the answer that nobody listens.
        pass
P
{
  try 4/day
  try 3/day
  try 2/day
  try 1/hour --hashlimit-burst 100
} | tee seen
cmp - seen <<'END'
4/day: taken, burst 5, passed 5 of 5
3/day: Numerical result out of range
2/day: taken, burst 5, passed 1 of 5
1/hour --hashlimit-burst 100: taken, burst 100, passed 25 of 100
END
