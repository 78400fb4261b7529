#!/usr/bin/env bash
# A limiter of arate-limit with slack gives none to the first requests after its start, however long it was idle before.
#
# arate-limit 1.2.2 from PyPI, LeakyBucketRateLimiter, five per second with a slack of 3, which its documentation calls an
# allowance for brief bursts. After two idle seconds four requests should pass at once. They do, but not if they are the first
# ones of the limiter: idle time counts from the first request on. A service that has just started answers its first clients
# slower than all later ones.
#
# Output seen:
#   first requests, after 2 idle seconds: 1 at once
#   later requests, after 2 idle seconds: 4 at once
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check arate-limit==1.2.2
cat >ask.py <<'P'
import asyncio, time

from arate_limit import LeakyBucketRateLimiter


async def main():
    limiter = LeakyBucketRateLimiter(event_count=5, time_window=1, slack=3)
    for name in ["first", "later"]:
        await asyncio.sleep(2)
        begin = time.monotonic()
        waits = []
        for _ in range(8):
            await limiter.wait()
            waits.append(time.monotonic() - begin)
        print(f"{name} requests, after 2 idle seconds: {sum(wait < 0.1 for wait in waits)} at once")


asyncio.run(main())
P
venv/bin/python ask.py | tee seen
cmp - seen <<'END'
first requests, after 2 idle seconds: 1 at once
later requests, after 2 idle seconds: 4 at once
END
