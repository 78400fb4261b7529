#!/usr/bin/env bash
# Moving windows of limits and pyrate-limiter refuse every second request of a client that asks once per period.
#
# limits 5.8.0 and pyrate-limiter 4.5.1 from PyPI. With a limit of one per minute, a request each 60 s should pass, as it does
# with a fixed window. Both libraries take a window with both of its ends, so that it holds two requests that are 60 s apart.
# limits contradicts itself there: test() allows what hit() at the same moment refuses. The script sets the clock.
#
# Output seen:
#   limits, fixed window: 1 per minute: 100 of 100, 10 per minute: 100 of 100 passed
#   limits, fixed window: test() contradicts hit(): 0 of 200
#   limits, moving window: 1 per minute: 50 of 100, 10 per minute: 91 of 100 passed
#   limits, moving window: test() contradicts hit(): 59 of 200
#   pyrate-limiter: 1 per minute: 50 of 100, 10 per minute: 91 of 100 passed
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check limits==5.8.0 pyrate-limiter==4.5.1
cat >count.py <<'P'
import time

now = 0.0
time.time = lambda: now

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter
from pyrate_limiter import InMemoryBucket, Rate, RateItem

BEGIN = 1_700_000_000


def report(name, ask):
    global now
    parts = []
    for limit in [1, 10]:
        passes = ask(limit)
        passed = 0
        for number in range(100):
            now = float(BEGIN + number * 60 // limit)
            passed += passes()
        parts.append(f"{limit} per minute: {passed} of 100")
    print(f"{name}: {', '.join(parts)} passed")


def of_limits(strategy):
    def ask(limit):
        limiter = strategy(MemoryStorage())
        item = parse(f"{limit}/minute")

        def passes():
            allowed = limiter.test(item, "client")
            hit = limiter.hit(item, "client")
            contradictions.append(allowed != hit)
            return hit

        return passes

    contradictions = []
    return ask, contradictions


def of_pyrate(limit):
    bucket = InMemoryBucket([Rate(limit, 60_000)])
    return lambda: bucket.put(RateItem("client", int(now * 1000)))


for name, strategy in [("fixed", FixedWindowRateLimiter), ("moving", MovingWindowRateLimiter)]:
    ask, contradictions = of_limits(strategy)
    report(f"limits, {name} window", ask)
    print(f"limits, {name} window: test() contradicts hit(): {sum(contradictions)} of {len(contradictions)}")
report("pyrate-limiter", of_pyrate)
P
venv/bin/python count.py | tee seen
cmp - seen <<'END'
limits, fixed window: 1 per minute: 100 of 100, 10 per minute: 100 of 100 passed
limits, fixed window: test() contradicts hit(): 0 of 200
limits, moving window: 1 per minute: 50 of 100, 10 per minute: 91 of 100 passed
limits, moving window: test() contradicts hit(): 59 of 200
pyrate-limiter: 1 per minute: 50 of 100, 10 per minute: 91 of 100 passed
END
