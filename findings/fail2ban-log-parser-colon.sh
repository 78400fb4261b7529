#!/usr/bin/env bash
# fail2ban-log-parser reads no line that fail2ban writes.
#
# fail2ban-log-parser 0.1.2 from PyPI, fail2ban 1.0.2-2 of Debian 12. fail2ban writes "[123]: NOTICE" between the name of its part
# and the jail by default. The parser should read the ban and its end. It wants "[123] NOTICE" without the colon, and gives each
# real line back as an error: a list of bans that is made with it is empty.
#
# Output seen:
#   fail2ban.actions        [123]: NOTICE  [drops] Ban 192.0.2.7
#   as written: 0 lines read, 2 errors
#   without the colon: 2 lines read, 0 errors
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq fail2ban=1.0.2-2
dpkg-deb -x fail2ban_*.deb root
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check fail2ban-log-parser==0.1.2
mkdir -p configuration/filter.d configuration/action.d
touch input
cat >configuration/fail2ban.conf <<C
[Definition]
loglevel = INFO
logtarget = $folder/log
syslogsocket = auto
socket = $folder/socket
pidfile = $folder/pid
dbfile = None
dbpurgeage = 1d
allowipv6 = auto
C
printf '[Definition]\nfailregex = ^drop <ADDR>$\n' >configuration/filter.d/drops.conf
printf '[drops]\nenabled = true\nfilter = drops\nlogpath = %s/input\nbackend = polling\naction =\n' "$folder" >configuration/jail.conf
export PYTHONPATH=$folder/root/usr/lib/python3/dist-packages
client() { venv/bin/python root/usr/bin/fail2ban-client -c configuration -s socket -p pid "$@" >/dev/null; }
venv/bin/python root/usr/bin/fail2ban-server -c configuration -s socket -p pid -xf start >output 2>&1 &
server=$!
for _ in $(seq 100); do grep -q "Jail 'drops' started" log 2>/dev/null && break || sleep 0.1; done
client set drops banip 192.0.2.7
for _ in $(seq 100); do grep -q ' Ban ' log && break || sleep 0.1; done
client set drops unbanip 192.0.2.7
client stop
grep -E ' (Ban|Unban) ' log >bans
cat >read.py <<'P'
from fail2ban_log_parser import parse

text = open("bans").read()
print(text.splitlines()[0][24:].replace(text.split("[")[1].split("]")[0], "123"))
for name, lines in {"as written": text, "without the colon": text.replace("]: ", "] ")}.items():
    bans, errors = parse(lines)
    print(f"{name}: {len(bans)} lines read, {len(errors)} errors")
P
venv/bin/python read.py | tee seen
cmp - seen <<'END'
fail2ban.actions        [123]: NOTICE  [drops] Ban 192.0.2.7
as written: 0 lines read, 2 errors
without the colon: 2 lines read, 0 errors
END
