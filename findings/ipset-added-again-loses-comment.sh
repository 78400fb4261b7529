#!/usr/bin/env bash
# ipset forgets the comment of an entry that is added again, but keeps its counters.
#
# ipset 7.17-1 of Debian 12; seen on Linux 6.18. A ban with a comment is added again with -exist, to begin its timeout anew, and
# without a comment. What is not named should stay, as the counters do, or both should begin anew. The comment, often the only
# record of the reason for a ban, is gone. The timeout becomes the set's default one, not the 1,000 seconds that the entry had.
#
# Output seen:
#   before: timeout 1000 packets 5 bytes 50 comment "reason"
#   after: timeout 300 packets 5 bytes 50
set -euo pipefail
folder=$(mktemp -d)
space=finding-$$
trap 'ip netns del "$space" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq ipset=7.17-1 libipset13=7.17-1 libmnl0=1.0.4-3
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
ip netns add "$space"
ipset() { ip netns exec "$space" "$folder/root/usr/sbin/ipset" "$@"; }
ipset --version | tee version
grep -q 'v7\.17' version

ipset create bans hash:net timeout 300 counters comment
entry() { # A second may have passed.
  ipset list bans | sed -nE 's/^192\.0\.2\.0\/24 //; s/^timeout 299 /timeout 300 /; s/^timeout 999 /timeout 1000 /; /^timeout/p'
}
{
  ipset add bans 192.0.2.0/24 timeout 1000 packets 5 bytes 50 comment reason
  echo "before: $(entry)"
  ipset -exist add bans 192.0.2.0/24
  echo "after: $(entry)"
} | tee seen
cmp - seen <<'END'
before: timeout 1000 packets 5 bytes 50 comment "reason"
after: timeout 300 packets 5 bytes 50
END
