#!/usr/bin/env bash
# iptables-translate turns hashlimit's "dstport" into a TCP port, also in a rule for UDP.
#
# iptables 1.8.9-2 and nftables 1.0.6-2+deb12u2 of Debian 12. "--hashlimit-mode srcip,dstport" of a rule with "-p udp"
# should become "udp dport". It becomes "tcp dport" behind "ip protocol udp", which nft refuses; and the table's
# bound, --hashlimit-htable-max, is left out without a word.
#
# Output seen:
#   nft 'add rule ip filter INPUT ip protocol udp meter m { tcp dport . ip saddr limit rate over 5/second burst 10 packets }
#   counter drop'
#   Error: conflicting protocols specified: udp vs. tcp
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
translate() { "$folder/root/usr/sbin/xtables-nft-multi" iptables-translate "$@"; }
translate --version | tee version
grep -q 'v1\.8\.9' version

translate -A INPUT -p udp -m hashlimit --hashlimit-above 5/second --hashlimit-burst 10 --hashlimit-mode srcip,dstport \
  --hashlimit-name m --hashlimit-htable-max 100 -j DROP | tee translated
test "$(cat translated)" = "nft 'add rule ip filter INPUT ip protocol udp meter m { tcp dport . ip saddr limit rate over 5/second burst 10 packets } counter drop'"

# nft checks the rule in a network namespace of its own, and changes nothing.
{
  echo 'add table ip filter'
  echo 'add chain ip filter INPUT'
  sed "s/^nft '//; s/'\$//" translated
} >rules
! unshare --net "$folder/root/usr/sbin/nft" --check --file rules 2>refused
grep 'conflicting protocols specified: udp vs. tcp' refused
