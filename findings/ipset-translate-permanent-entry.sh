#!/usr/bin/env bash
# ipset-translate makes an entry that never ends into one that ends after the set's default time.
#
# ipset 7.17-1 and nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. `timeout 0` of an entry means for ever in a set
# with a default time. The translation writes `timeout 0s`, which this nft accepts and takes for the set's default time. The
# entry should be permanent, or the translation refused: nothing is said, and the address is off the list after five minutes.
#
# Output seen:
#   translated: { 198.51.100.7 timeout 0s }
#   in force:   198.51.100.7 expires in 4 to 5 minutes
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq ipset=7.17-1 libipset13=7.17-1 libmnl0=1.0.4-3 \
  nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
ip netns add "$space"
root/usr/sbin/ipset-translate --version | grep -q 'v7\.17'
root/usr/sbin/nft --version | grep -q 'v1\.0\.6'

cat >saved <<'END'
create bans hash:net family inet timeout 300
add bans 198.51.100.7 timeout 0
END
root/usr/sbin/ipset-translate restore <saved >rules
translated=$(sed -n 's/^add element inet global bans //p' rules)
echo "translated: $translated"
test "$translated" = '{ 198.51.100.7 timeout 0s }'
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
nft --file rules
element=$(nft list set inet global bans | grep -o '198\.51\.100\.7[^}]*')
echo "in force: $element"
[[ $element =~ ^198\.51\.100\.7\ expires\ 4m[0-9]+s ]]
