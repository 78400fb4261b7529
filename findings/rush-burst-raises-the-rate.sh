#!/usr/bin/env bash
# A burst of rush makes the limit itself higher: "five per minute, burst two" is seven per minute.
#
# rush 2021.4.0 from PyPI, its limiter by the generic cell rate algorithm (GCRA). Quota.per_minute(5, maximum_burst=2) should let
# 7 requests pass at once and then one each 12 s. It lets 6 pass at once, and then one each 8.6 s: rush adds the burst to the
# limit, and divides the minute by the sum. A client that asks for ten hours gets 40 % more than the quota.
#
# Output seen:
#   five per minute: 4 of 20 at once, then one each 12.0 s
#   five per minute, burst two: 6 of 20 at once, then one each 8.6 s
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check rush==2021.4.0
venv/bin/python - <<'P' | tee seen
from rush.limiters.gcra import GenericCellRatelimiter
from rush.quota import Quota
from rush.stores.dictionary import DictionaryStore
from rush.throttle import Throttle

for name, quota in {
    "five per minute": Quota.per_minute(5),
    "five per minute, burst two": Quota.per_minute(5, maximum_burst=2),
}.items():
    throttle = Throttle(limiter=GenericCellRatelimiter(store=DictionaryStore()), rate=quota)
    results = [throttle.check("192.0.2.7", 1) for _ in range(20)]
    passed = sum(not result.limited for result in results)
    wait = next(result.retry_after.total_seconds() for result in results if result.limited)
    print(f"{name}: {passed} of 20 at once, then one each {round(wait, 1)} s")
P
cmp - seen <<'END'
five per minute: 4 of 20 at once, then one each 12.0 s
five per minute, burst two: 6 of 20 at once, then one each 8.6 s
END
