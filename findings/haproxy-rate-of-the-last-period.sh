#!/usr/bin/env bash
# HAProxy counts requests of 14 seconds ago as requests of the last ten seconds.
#
# haproxy 2.6.12-1+deb12u4 of Debian 12. A client sends ten requests within a moment. A table's "http_req_rate(10s)" should be 10
# for ten seconds and then 0. It is 10 for ten seconds, and goes down to 0 in ten more: HAProxy keeps the numbers of this period
# and of the one before, and adds a part of the latter. A limit on this rate goes on for up to twice the period. Takes 22 seconds.
#
# Output seen:
#   after 5 s: 10
#   after 14 s: 4 to 6
#   after 21 s: 0
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq haproxy=2.6.12-1+deb12u4 libopentracing-c-wrapper0=1.1.3-3+b1 libopentracing1=1.6.0-4
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
root/usr/sbin/haproxy -v >version
head -1 version
grep -q 'version 2\.6\.12' version
cat >haproxy.cfg <<C
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
backend clients
  stick-table type string size 1k expire 5m store http_req_rate(10s)
frontend pages
  bind unix@$folder/socket
  http-request track-sc0 path table clients if METH_POST
  http-request return status 200 content-type text/plain lf-string "%[path,table_http_req_rate(clients)]"
C
root/usr/sbin/haproxy -f haproxy.cfg >log 2>&1 &
server=$!
for _ in $(seq 50); do [ -S socket ] && break || sleep 0.1; done
ask() { curl -sS --unix-socket socket "http://127.0.0.1/client" "$@"; }
for _ in $(seq 10); do ask --request POST >/dev/null; done
rate() {
  sleep "$1"
  ask
}
{
  echo "after 5 s: $(rate 5)"
  echo "after 14 s: $(rate 9 | sed -E 's/^[456]$/4 to 6/')"
  echo "after 21 s: $(rate 7)"
} | tee seen
cmp - seen <<'END'
after 5 s: 10
after 14 s: 4 to 6
after 21 s: 0
END
