#!/usr/bin/env bash
# Three requests in 20 microseconds are one request to a Redis script that builds the log's entries from the time.
#
# redis-server 5:7.0.15-1~deb12u10 of Debian 12. A sliding window as a sorted set has an entry "TIME:CLIENT" per request, with its
# time in microseconds as the score. Three times should give three entries. Redis keeps all 16 digits of a score, but ".." of its
# Lua keeps 14, so that all requests of a client in 100 µs have one name and count once. string.format("%.0f") keeps all.
#
# Output seen:
#   time: 1 in the set, the first: 1.7000000001235e+15:a 1700000000123480
#   string.format('%.0f', time): 3 in the set, the first: 1700000000123460:a 1700000000123460
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10
for package in *.deb; do dpkg-deb -x "$package" root; done
root/usr/bin/redis-server --version | tee version
grep -q 'v=7\.0\.15' version
root/usr/bin/redis-server --port 0 --unixsocket "$folder/socket" --save '' >log &
server=$!
redis() { root/usr/bin/redis-cli -s "$folder/socket" "$@"; }
for _ in $(seq 50); do redis ping >/dev/null 2>&1 && break || sleep 0.1; done

try() { # name of the log, how the script writes the time
  local script="
    local time = tonumber(ARGV[1])
    redis.call('ZADD', KEYS[1], time, $2 .. ':a')
    return redis.call('ZCARD', KEYS[1])"
  for time in 1700000000123460 1700000000123470 1700000000123480; do
    entries=$(redis eval "$script" 1 "$1" "$time")
  done
  echo "$2: $entries in the set, the first: $(redis zrange "$1" 0 0 withscores | paste -sd' ')"
}
{
  try joined 'time'
  try formatted "string.format('%.0f', time)"
} | tee seen
cmp - seen <<'END'
time: 1 in the set, the first: 1.7000000001235e+15:a 1700000000123480
string.format('%.0f', time): 3 in the set, the first: 1700000000123460:a 1700000000123460
END
