#!/usr/bin/env bash
# A set of nftables that was saved as JSON and loaded again takes no limits per address any more.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. A set with "flags dynamic,timeout" should have both flags after its
# JSON was loaded, as after its text. The JSON listing has no word for "dynamic". The set stays the same to look at otherwise,
# and plain entries work, but the next rule that gives each of its addresses a limit is refused, with an error that does not
# name the flag.
#
# Output seen:
#   text: flags dynamic,timeout
#   text, a rule with a limit per address: taken
#   JSON: flags timeout
#   JSON, a rule with a limit per address: Error: Could not process rule: Invalid argument
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

try() { # name, options of nft
  local name=$1
  shift
  nft flush ruleset
  printf '%s\n' 'table ip finding {' 'set sources { type ipv4_addr; size 100; flags dynamic,timeout; timeout 10s; }' 'chain limits {' '}' '}' |
    nft --file -
  nft "$@" list ruleset >saved
  nft flush ruleset
  nft "$@" --file saved
  # The kernel's set of one flag is listed without "flags": its timeout says as much.
  nft list set ip finding sources | grep -o 'flags .*' >flags || echo 'flags timeout' >flags
  echo "$name: $(cat flags)"
  if nft add rule ip finding limits 'update @sources { ip saddr limit rate over 10/second } drop' 2>error; then
    echo "$name, a rule with a limit per address: taken"
  else
    echo "$name, a rule with a limit per address: $(head -1 error)"
  fi
}
{
  try text
  try JSON --json
} | tee seen
cmp - seen <<'END'
text: flags dynamic,timeout
text, a rule with a limit per address: taken
JSON: flags timeout
JSON, a rule with a limit per address: Error: Could not process rule: Invalid argument
END
