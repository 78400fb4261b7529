#!/usr/bin/env bash
# The counters of a set's elements are zero after nftables saved the rules as JSON and loaded them, and those of rules are not.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. The listing as JSON has the packets and bytes of each element and of
# each rule. Loading it should set all of them, as loading the listing as text does. The counters of the elements begin at zero,
# with status 0 and no warning. What each banned address has sent is not known any more after a restart.
#
# Output seen:
#   before: element packets 3 bytes 180, rule packets 5 bytes 300
#   in the JSON: "packets": 3, "bytes": 180;"packets": 5, "bytes": 300
#   after the text: element packets 3 bytes 180, rule packets 5 bytes 300
#   after the JSON: element packets 0 bytes 0, rule packets 5 bytes 300
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
nft --version | grep -q 'v1\.0\.6'

cat >rules <<'N'
table ip finding {
  set banned {
    type ipv4_addr
    counter
    elements = { 192.0.2.7 counter packets 3 bytes 180 }
  }
  chain rules {
    ip saddr @banned counter packets 5 bytes 300 drop
  }
}
N
numbers() { grep "$1" listing | grep -o 'packets [0-9]* bytes [0-9]*'; }
counters() { echo "$1: element $(numbers elements), rule $(numbers drop)"; }
{
  nft -f rules
  nft list ruleset | tee saved >listing
  counters 'before'
  nft --json list ruleset >saved.json
  echo "in the JSON: $(grep -o '"packets": [0-9]*, "bytes": [0-9]*' saved.json | paste -sd ';')"
  nft flush ruleset
  nft -f saved
  nft list ruleset >listing
  counters 'after the text'
  nft flush ruleset
  nft --json -f saved.json
  nft list ruleset >listing
  counters 'after the JSON'
} | tee seen
cmp - seen <<'END'
before: element packets 3 bytes 180, rule packets 5 bytes 300
in the JSON: "packets": 3, "bytes": 180;"packets": 5, "bytes": 300
after the text: element packets 3 bytes 180, rule packets 5 bytes 300
after the JSON: element packets 0 bytes 0, rule packets 5 bytes 300
END
