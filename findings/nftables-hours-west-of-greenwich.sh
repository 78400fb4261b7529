#!/usr/bin/env bash
# West of Greenwich, nft lists the hours "20:00"-"23:00" as "1193042:28:16"-"1193045:28:16", and cannot load this.
#
# nftables 1.0.6-2+deb12u2 of Debian 12; seen on Linux 6.18. The time zone is five hours behind UTC, so that the hours are those
# of the next day in UTC. The listing should give them as they were set, as it does nine hours ahead of UTC. It gives hours of
# 2^32 seconds, and nft refuses these. A saved ruleset with such a rule is not loaded at all, and the host starts without its
# rules.
#
# Output seen:
#   UTC+9: meta hour "20:00"-"23:00" drop
#   UTC-5: meta hour "1193042:28:16"-"1193045:28:16" drop
#   loaded again: Error: wrong time format
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

{
  for zone in UTC-9 UTC+5; do # POSIX counts to the west.
    export TZ=$zone
    nft flush ruleset
    printf '%s\n' 'table ip finding {' 'chain evening {' 'meta hour "20:00"-"23:00" drop' '}' '}' | nft --file -
    echo "UTC$(date +%:::z | sed -E 's/([+-])0/\1/'): $(nft list ruleset | grep -o 'meta hour.*')"
  done
  nft list ruleset >saved
  nft flush ruleset
  echo "loaded again: $(nft --file saved 2>&1 | grep -o 'Error.*')"
} | tee seen
cmp - seen <<'END'
UTC+9: meta hour "20:00"-"23:00" drop
UTC-5: meta hour "1193042:28:16"-"1193045:28:16" drop
loaded again: Error: wrong time format
END
