#!/usr/bin/env bash
# A set of nftables whose entries last half a second has entries without end after it was saved as JSON and loaded again.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. The text listing gives timeouts to the millisecond, and loads again
# as it was. The JSON listing should too. It rounds timeouts down to whole seconds: 1,500 ms become 1 s, and 500 ms become 0,
# which means no timeout. The set has none after loading, and an entry of the default time stays for ever.
#
# Output seen:
#   text: timeout 500ms, 192.0.2.2 timeout 1s500ms
#   JSON: 192.0.2.2 timeout 1s
#   1.5 s later: elements = { 192.0.2.1 }
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

cat >table <<'END'
table ip finding {
  set seen {
    type ipv4_addr
    flags timeout
    timeout 500ms
    elements = { 192.0.2.1, 192.0.2.2 timeout 1500ms }
  }
}
END
saved() { # Prints the timeouts of the set after saving and loading it with these options.
  nft flush ruleset
  nft --file table
  nft "$@" list ruleset >saved
  nft flush ruleset
  nft "$@" --file saved
  nft list set ip finding seen >after
  grep -oE '^\s*timeout .*|192\.0\.2\.2 timeout [^ ]*' after | tr -d '\t' | paste -sd, | sed 's/,/, /'
}
{
  echo "text: $(saved)"
  echo "JSON: $(saved --json)"
  sleep 1.5
  echo "1.5 s later: $(nft list set ip finding seen | grep -o 'elements.*')"
} | tee seen
cmp - seen <<'END'
text: timeout 500ms, 192.0.2.2 timeout 1s500ms
JSON: 192.0.2.2 timeout 1s
1.5 s later: elements = { 192.0.2.1 }
END
