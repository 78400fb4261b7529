#!/usr/bin/env bash
# "nft -o" merges rules by dropping their comments, and their counters if one accepts and the other drops.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. The option joins rules that do the same with different addresses.
# Rules that differ in a comment, or of which each has a counter and a verdict of its own, should stay, as those with different
# prefixes for the log do, or keep what they have. Two comments become none; two counters become none, or the first one's count
# for both.
#
# Output seen:
#   comments: ip saddr { 192.0.2.1, 192.0.2.2 } drop
#   counters, accept and drop: ip saddr vmap { 192.0.2.1 : accept, 192.0.2.2 : drop }
#   counters of 5 and 7 packets: ip saddr { 192.0.2.1, 192.0.2.2 } counter packets 5 bytes 50 drop
#   prefixes for the log: left as they are
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
ip netns add "$space"
nft --version | tee version
grep -q 'v1\.0\.6' version

try() { # name, and two rules
  printf '%s\n' 'table ip finding {' 'chain rules {' "$2" "$3" '}' '}' >rules
  nft flush ruleset
  nft --optimize --file rules >merged 2>&1
  if grep --quiet '^Merging' merged; then
    echo "$1: $(nft list chain ip finding rules | sed -nE 's/^\t\t(ip saddr.*)/\1/p')"
  else
    echo "$1: left as they are"
  fi
}
{
  try comments 'ip saddr 192.0.2.1 drop comment "ticket 1"' 'ip saddr 192.0.2.2 drop comment "ticket 2"'
  try 'counters, accept and drop' 'ip saddr 192.0.2.1 counter accept' 'ip saddr 192.0.2.2 counter drop'
  try 'counters of 5 and 7 packets' 'ip saddr 192.0.2.1 counter packets 5 bytes 50 drop' \
    'ip saddr 192.0.2.2 counter packets 7 bytes 70 drop'
  try 'prefixes for the log' 'ip saddr 192.0.2.1 log prefix "one" drop' 'ip saddr 192.0.2.2 log prefix "two" drop'
} | tee seen
cmp - seen <<'END'
comments: ip saddr { 192.0.2.1, 192.0.2.2 } drop
counters, accept and drop: ip saddr vmap { 192.0.2.1 : accept, 192.0.2.2 : drop }
counters of 5 and 7 packets: ip saddr { 192.0.2.1, 192.0.2.2 } counter packets 5 bytes 50 drop
prefixes for the log: left as they are
END
