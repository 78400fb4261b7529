#!/usr/bin/env bash
# fail2ban bans an address for five failures in ten minutes although it has seen two in the last ten minutes.
#
# fail2ban 1.0.2-2 of Debian 12. With maxretry 5 and findtime 600, an address fails three times at 0 s, once at 590 s and once at
# 610 s. No ten minutes have more than four failures, so there should be no ban. fail2ban bans at 610 s. It keeps one number per
# address and no times: a failure after findtime scales the number by findtime / age of the first one, here 4 * 600 / 610, and
# rounds it to 4 again. Its manual page promises the number of failures "in the last findtime seconds".
#
# Output seen:
#   failure at 0 s: counted 3
#   failure at 590 s: counted 4
#   failure at 610 s: counted 5, banned; in the last 600 s: 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download -qq fail2ban=1.0.2-2
dpkg-deb -x fail2ban_*.deb root
cat >count.py <<'P'
from fail2ban.server.failmanager import FailManager, FailManagerEmpty
from fail2ban.server.mytime import MyTime
from fail2ban.server.ticket import FailTicket

BEGIN = 1_700_000_000
manager = FailManager()
manager.setMaxRetry(5)
manager.setMaxTime(600)
times = [0, 0, 0, 590, 610]
for number, time in enumerate(times):
    MyTime.setTime(BEGIN + time)
    counted = manager.addFailure(FailTicket("192.0.2.7", BEGIN + time, ["a line"]))
    line = f"failure at {time} s: counted {counted}"
    try:
        manager.toBan("192.0.2.7")
        recent = sum(time - 600 < earlier for earlier in times[: number + 1])
        print(f"{line}, banned; in the last 600 s: {recent}")
    except FailManagerEmpty:
        if number >= 2:
            print(line)
P
PYTHONPATH=root/usr/lib/python3/dist-packages python3 count.py | tee seen
cmp - seen <<'END'
failure at 0 s: counted 3
failure at 590 s: counted 4
failure at 610 s: counted 5, banned; in the last 600 s: 2
END
