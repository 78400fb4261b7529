#!/usr/bin/env bash
# "iptables -C" does not find a rule with connlimit or recent that iptables-restore has loaded from iptables-save.
#
# iptables 1.8.9-2 of Debian 12; seen on Linux 6.18. A rule is added, and -C finds it. After saving and restoring, the rules do
# the same as before, and -C, and -D, should find them by the same words. They find none: the listing adds "--connlimit-mask 32"
# and "--mask 255.255.255.255", and a rule that names its mask differs from one that does not. A script that adds its rules
# where "-C" fails adds them a second time after each start.
#
# Output seen:
#   -m connlimit --connlimit-above 10: added: found, restored: not found
#   -m connlimit --connlimit-above 10 --connlimit-mask 32: added: found, restored: found
#   -m recent --name seen --set: added: found, restored: not found
#   -m recent --name seen --set --mask 255.255.255.255: added: found, restored: found
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq iptables=1.8.9-2 libxtables12=1.8.9-2 libip4tc2=1.8.9-2 libip6tc2=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
ip netns add "$space"
xtables() { ip netns exec "$space" "$folder/root/usr/sbin/xtables-legacy-multi" "$@"; }
xtables iptables --version | tee version
grep -q 'v1\.8\.9' version

find() {
  xtables iptables -C INPUT "$@" -j DROP 2>/dev/null && echo found || echo 'not found'
}
try() {
  xtables iptables -F
  xtables iptables -A INPUT "$@" -j DROP
  added=$(find "$@")
  xtables iptables-save >saved
  xtables iptables -F
  xtables iptables-restore saved
  echo "$*: added: $added, restored: $(find "$@")"
}
{
  try -m connlimit --connlimit-above 10
  try -m connlimit --connlimit-above 10 --connlimit-mask 32
  try -m recent --name seen --set
  try -m recent --name seen --set --mask 255.255.255.255
} | tee seen
cmp - seen <<'END'
-m connlimit --connlimit-above 10: added: found, restored: not found
-m connlimit --connlimit-above 10 --connlimit-mask 32: added: found, restored: found
-m recent --name seen --set: added: found, restored: not found
-m recent --name seen --set --mask 255.255.255.255: added: found, restored: found
END
