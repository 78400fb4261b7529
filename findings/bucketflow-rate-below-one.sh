#!/usr/bin/env bash
# bucketflow's decorator refuses every call if the rate is below one per second.
#
# bucketflow 0.1.0 from PyPI. "rate_limit(0.5)" should let one call pass in two seconds, or be refused. The burst is as large as
# the rate if none is given, so that the bucket has room for half a token. Each call ends with an error about a capacity that
# nobody set, also after a pause, and also if a call should wait for its token.
#
# Output seen:
#   rate_limit(2): at once: passes; after 2.2 s: the same
#   rate_limit(0.5): at once: Cannot consume more tokens than capacity: 1 > 0.5; after 2.2 s: the same
#   rate_limit(0.5, capacity=1): at once: passes; after 2.2 s: the same
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check bucketflow==0.1.0
cat >calls.py <<'P'
import time

from bucketflow import rate_limit

for rate, options in (2, {}), (0.5, {}), (0.5, {"capacity": 1}):
    call = rate_limit(rate, **options)(lambda: "passes")
    seen = []
    for pause in 0, 2.2:
        time.sleep(pause)
        try:
            seen.append(call())
        except ValueError as error:
            seen.append(str(error))
    words = ", ".join([str(rate), *(f"{name}={value}" for name, value in options.items())])
    print(f"rate_limit({words}): at once: {seen[0]}; after 2.2 s: {'the same' if seen[0] == seen[1] else seen[1]}")
P
venv/bin/python calls.py | tee seen
cmp - seen <<'END'
rate_limit(2): at once: passes; after 2.2 s: the same
rate_limit(0.5): at once: Cannot consume more tokens than capacity: 1 > 0.5; after 2.2 s: the same
rate_limit(0.5, capacity=1): at once: passes; after 2.2 s: the same
END
