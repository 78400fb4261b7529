#!/usr/bin/env bash
# mod_evasive with "5 in 3 seconds" blocks a client that asks once per second, at its seventh request.
#
# libapache2-mod-evasive 1.10.1-5 and apache2-bin 2.4.71-1~deb12u1 of Debian 12. The README says that DOSPageCount is the number of
# requests for one page per DOSPageInterval. A client with one request per second has at most four in three seconds, and one with a
# request every two seconds has two. Neither should be blocked. The module begins its count again only after a pause of a whole
# interval, and so counts every request of a client that never pauses. A monitor is blocked, however slow it is.
#
# Output seen:
#   a request every 1 s: 200 200 200 200 200 200 403 403
#   a request every 2 s: 200 200 200 200 200 200 403 403
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq libapache2-mod-evasive=1.10.1-5 apache2-bin=2.4.71-1~deb12u1 \
  libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1
for package in *.deb; do dpkg-deb -x "$package" root; done
export LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu
port=$((20000 + RANDOM % 10000))
mkdir run
echo page >run/page
cat >configuration <<C
ServerRoot $folder/root/usr/lib/apache2
ServerName localhost
PidFile $folder/run/pid
ErrorLog $folder/run/errors
Listen 127.0.0.1:$port
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule evasive20_module modules/mod_evasive20.so
DocumentRoot $folder/run
DOSPageCount 5
DOSPageInterval 3
DOSSiteCount 1000
DOSLogDir $folder/run
C
root/usr/sbin/apache2 -X -f "$folder/configuration" &
server=$!
for _ in $(seq 50); do [ -s run/pid ] && break || sleep 0.1; done
client() { # pause in seconds, own address
  local statuses="" status
  for _ in $(seq 8); do
    status=$(curl -s -o /dev/null -w '%{http_code}' --interface "$2" "http://127.0.0.1:$port/page")
    statuses+=" $status"
    sleep "$1"
  done
  echo "a request every $1 s:$statuses"
}
client 2 127.0.0.2 >second &
slow=$!
client 1 127.0.0.3 >first
wait "$slow"
cat first second | tee seen
cmp - seen <<'END'
a request every 1 s: 200 200 200 200 200 200 403 403
a request every 2 s: 200 200 200 200 200 200 403 403
END
