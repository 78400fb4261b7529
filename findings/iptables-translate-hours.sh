#!/usr/bin/env bash
# iptables-translate moves the hours of a rule by the distance of the time zone from UTC.
#
# iptables 1.8.9-2 and nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. The times of the match "time" are UTC unless the
# rule has --kerneltz, and the translation should keep them. It writes the same hours, with and without --kerneltz, and nft takes
# hours for those of the local time zone. In Tokyo a rule for 12:00 to 14:00 UTC is in force from 03:00 to 05:00 UTC.
#
# Output seen:
#   translated: meta hour "12:00:00"-"14:00:00" counter drop
#   with --kerneltz: meta hour "12:00:00"-"14:00:00" counter drop
#   in force, in UTC: meta hour "03:00"-"05:00"
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2 \
  iptables=1.8.9-2 libxtables12=1.8.9-2
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
nft() { ip netns exec "$space" "$folder/root/usr/sbin/nft" "$@"; }
ip netns add "$space"
nft --version | tee version
grep -q 'v1\.0\.6' version

export XTABLES_LIBDIR=$folder/root/usr/lib/x86_64-linux-gnu/xtables
export TZ=JST-9
translate() {
  "$folder/root/usr/sbin/xtables-nft-multi" iptables-translate -A INPUT -m time --timestart 12:00 --timestop 14:00 "$@" -j DROP |
    grep -o "meta hour[^']*"
}
{
  translated=$(translate)
  echo "translated: $translated"
  echo "with --kerneltz: $(translate --kerneltz)"
  nft add table ip finding
  nft add chain ip finding noon
  nft add rule ip finding noon "$translated"
  echo "in force, in UTC: $(TZ=UTC nft list chain ip finding noon | grep -o 'meta hour "[^ ]*"')"
} | tee seen
cmp - seen <<'END'
translated: meta hour "12:00:00"-"14:00:00" counter drop
with --kerneltz: meta hour "12:00:00"-"14:00:00" counter drop
in force, in UTC: meta hour "03:00"-"05:00"
END
