#!/usr/bin/env bash
# After the clock was set back by an hour, limits and throttled-py refuse a client for an hour, depending on the algorithm.
#
# limits 5.8.0 and throttled-py 3.5.0 from PyPI, with their memory stores. A client has used up ten per minute when the clock is
# set back by an hour, as a host with a wrong clock does after its start. It should get its next request within a minute. Fixed
# and moving windows of limits and the token bucket of throttled-py wait until the old time has come again; the other algorithms
# of the same libraries let it through at once. The script sets the clock.
#
# Output seen:
#   limits, FixedWindowRateLimiter: next request after 61 minutes
#   limits, MovingWindowRateLimiter: next request after 61 minutes
#   limits, SlidingWindowCounterRateLimiter: next request after 0 minutes
#   throttled-py, token_bucket: next request after 60 minutes
#   throttled-py, fixed_window: next request after 0 minutes
#   throttled-py, sliding_window: next request after 0 minutes
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check limits==5.8.0 throttled-py==3.5.0
cat >ask.py <<'P'
import time

now = 0.0
time.time = lambda: now

from limits import parse, storage, strategies
from throttled import Throttled, per_min, store

BEGIN = 1_700_000_000


def report(name, passes):
    global now
    for tenth in range(30):
        now = BEGIN + tenth / 10
        passes()
    for second in range(4_000):
        now = BEGIN - 3_600 + second
        if passes():
            break
    print(f"{name}: next request after {round(second / 60)} minutes")


for name in ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"]:
    limiter = getattr(strategies, name)(storage.MemoryStorage())
    item = parse("10/minute")
    report(f"limits, {name}", lambda: limiter.hit(item, "client"))
for name in ["token_bucket", "fixed_window", "sliding_window"]:
    throttle = Throttled(using=name, quota=per_min(10, burst=10), store=store.MemoryStore())
    report(f"throttled-py, {name}", lambda: not throttle.limit("client").limited)
P
venv/bin/python ask.py | tee seen
cmp - seen <<'END'
limits, FixedWindowRateLimiter: next request after 61 minutes
limits, MovingWindowRateLimiter: next request after 61 minutes
limits, SlidingWindowCounterRateLimiter: next request after 0 minutes
throttled-py, token_bucket: next request after 60 minutes
throttled-py, fixed_window: next request after 0 minutes
throttled-py, sliding_window: next request after 0 minutes
END
