#!/usr/bin/env bash
# A set of nftables with auto-merge joins elements of different timeouts, and keeps the timeout that was added last.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. A ban without end of one address, then a ban of its network for a
# minute: both should be kept, or the second refused. The ban without end is gone, and ends with the other one after a minute.
# Neighbours are joined too: a ban of an hour beside one of a day lasts a day.
#
# Output seen:
#   without end, then its network for a minute: { 192.0.2.0/24 timeout 1m }
#   half for an hour, half for a day: { 192.0.2.0/24 timeout 1d }
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

printf '%s\n' 'table ip finding {' 'set bans { type ipv4_addr; flags interval,timeout; auto-merge' '}' '}' >table
nft --file table
elements() {
  nft list set ip finding bans | tr -d '\n\t' | sed -E 's/.*elements = (\{.*\}) *\}\}$/\1/; s/ expires [^ ,}]*//g; s/\}+$/}/'
}
try() {
  nft flush set ip finding bans
  nft add element ip finding bans "{ $2 }"
  nft add element ip finding bans "{ $3 }"
  echo "$1: $(elements)"
  test "$(elements)" = "$4"
}
try 'without end, then its network for a minute' '192.0.2.9' '192.0.2.0/24 timeout 1m' '{ 192.0.2.0/24 timeout 1m }'
try 'half for an hour, half for a day' '192.0.2.0/25 timeout 1h' '192.0.2.128/25 timeout 1d' '{ 192.0.2.0/24 timeout 1d }'
