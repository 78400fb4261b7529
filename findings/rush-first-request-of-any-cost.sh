#!/usr/bin/env bash
# rush lets the first request of a period pass whatever it costs: 100 of a limit of five.
#
# rush 2021.4.0 from PyPI, with its PeriodicLimiter and its limiter by the generic cell rate algorithm (GCRA). A request may cost more
# than one. With a limit of five per minute, a request that costs 100 should be refused, as GCRA does, and as both do for a
# second request. The periodic limiter lets it pass as the first one, and says that -95 remain.
#
# Output seen:
#   PeriodicLimiter, first request: passed, -95 remain
#   PeriodicLimiter, second request: refused, 4 remain
#   GenericCellRatelimiter, first request: refused, 0 remain
#   GenericCellRatelimiter, second request: refused, 0 remain
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check rush==2021.4.0
venv/bin/python - <<'P' | tee seen
from rush.limiters.gcra import GenericCellRatelimiter
from rush.limiters.periodic import PeriodicLimiter
from rush.quota import Quota
from rush.stores.dictionary import DictionaryStore
from rush.throttle import Throttle

for limiter in PeriodicLimiter, GenericCellRatelimiter:
    for order in "first", "second":
        throttle = Throttle(limiter=limiter(store=DictionaryStore()), rate=Quota.per_minute(5))
        if order == "second":
            throttle.check("192.0.2.7", 1)
        result = throttle.check("192.0.2.7", 100)
        verdict = "refused" if result.limited else "passed"
        print(f"{limiter.__name__}, {order} request: {verdict}, {result.remaining} remain")
P
cmp - seen <<'END'
PeriodicLimiter, first request: passed, -95 remain
PeriodicLimiter, second request: refused, 4 remain
GenericCellRatelimiter, first request: refused, 0 remain
GenericCellRatelimiter, second request: refused, 0 remain
END
