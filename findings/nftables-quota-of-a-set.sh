#!/usr/bin/env bash
# nft cannot load its own listing of a set whose elements have a quota.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. A set may give each address a quota, as it may give it a counter or a
# limit. A listing of all three should load again. nft refuses the quota that it printed itself. A ruleset is loaded as a whole,
# so a saved ruleset with such a set leaves the host without any rule after its next start.
#
# Output seen:
#   counter: loaded again
#   limit rate 10/second: loaded again
#   quota 500 mbytes: Error: syntax error, unexpected quota, expecting comma or '}'
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

for statement in 'counter' 'limit rate 10/second' 'quota 500 mbytes'; do
  nft flush ruleset
  printf '%s\n' 'table ip finding {' 'set sources {' 'type ipv4_addr' "$statement" 'elements = { 192.0.2.1 }' '}' '}' |
    nft --file -
  nft list ruleset >saved
  nft flush ruleset
  if nft --file saved 2>error; then
    echo "$statement: loaded again"
  else
    echo "$statement: $(sed -n '1s/.*Error/Error/p' error)"
  fi
done | tee seen
cmp - seen <<'END'
counter: loaded again
limit rate 10/second: loaded again
quota 500 mbytes: Error: syntax error, unexpected quota, expecting comma or '}'
END
