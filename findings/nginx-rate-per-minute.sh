#!/usr/bin/env bash
# nginx lets one request through in 62.5 seconds if the configuration says one per minute.
#
# nginx 1.22.1-9+deb12u11 of Debian 12. With "rate=1r/m" and no burst, a second request after 60.5 s should pass. nginx refuses
# it: it keeps a rate in whole thousandths of a request per second and rounds down, so that 1r/m becomes 0.016 per second. 2r/m
# becomes one in 30.3 s, 7r/m one in 8.62 s. The manual does not name these steps. The script takes 64 seconds.
#
# Output seen:
#   after 60.5 s: 503
#   after 63 s: 200
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq nginx=1.22.1-9+deb12u11
dpkg-deb -x nginx_*.deb root
mkdir pages
echo page | tee pages/first >pages/second
cat >nginx.conf <<C
daemon off;
user root;
pid $folder/pid;
error_log $folder/errors;
events {}
http {
  access_log off;
  client_body_temp_path $folder/client;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  limit_req_zone \$uri zone=pages:1m rate=1r/m;
  server {
    listen unix:$folder/socket;
    location / { limit_req zone=pages; root $folder/pages; }
  }
}
C
root/usr/sbin/nginx -v 2>&1 | tee version
grep -q 'nginx/1\.22\.1' version
root/usr/sbin/nginx -c "$folder/nginx.conf" -p "$folder" &
server=$!
for _ in $(seq 50); do [ -S socket ] && break || sleep 0.1; done
ask() { curl -sS -o /dev/null -w '%{http_code}' --unix-socket socket "http://127.0.0.1/$1"; }
test "$(ask first) $(ask second)" = '200 200'
sleep 60.5
echo "after 60.5 s: $(ask first)" | tee seen
sleep 2.5
echo "after 63 s: $(ask second)" | tee -a seen
cmp - seen <<'END'
after 60.5 s: 503
after 63 s: 200
END
