#!/usr/bin/env bash
# A token bucket of throttled-py for 59 requests per minute lets 30 through, and one for 119 lets 60 through.
#
# throttled-py 3.5.0 from PyPI, with its memory store; the script of its Redis store has the same arithmetic. A client that asks
# ten times a second should get about the configured rate. The bucket sees time in whole seconds, adds whole tokens, rounded down,
# and forgets the fraction at each request that passes: 59/60 of a token after one second are none, and after two seconds one. The
# rate is right only if it is a whole number per second or one per whole number of seconds. The script sets the clock.
#
# Output seen:
#   token_bucket: 30 per minute: 30, 59 per minute: 30, 60 per minute: 60, 119 per minute: 60, 120 per minute: 120
#   sliding_window: 30 per minute: 30, 59 per minute: 59, 60 per minute: 60, 119 per minute: 119, 120 per minute: 120
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check throttled-py==3.5.0
cat >count.py <<'P'
import time

from throttled import Throttled, per_min, store

BEGIN = 1_800_000_000.01
now = BEGIN
time.time = time.monotonic = lambda: now
MINUTES = 10


def passed(algorithm, limit):
    global now
    now = BEGIN
    quota = per_min(limit, burst=2) if algorithm == "token_bucket" else per_min(limit)
    throttle = Throttled(using=algorithm, quota=quota, store=store.MemoryStore())
    count = 0
    for tenth in range(MINUTES * 600):
        now = BEGIN + tenth / 10
        count += not throttle.limit("client").limited
    return round(count / MINUTES)


for algorithm in ["token_bucket", "sliding_window"]:
    rates = [f"{limit} per minute: {passed(algorithm, limit)}" for limit in [30, 59, 60, 119, 120]]
    print(f"{algorithm}: " + ", ".join(rates))
P
venv/bin/python count.py | tee seen
cmp - seen <<'END'
token_bucket: 30 per minute: 30, 59 per minute: 30, 60 per minute: 60, 119 per minute: 60, 120 per minute: 120
sliding_window: 30 per minute: 30, 59 per minute: 59, 60 per minute: 60, 119 per minute: 119, 120 per minute: 120
END
