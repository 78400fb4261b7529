#!/usr/bin/env bash
# A year of the Python library "limits" has 360 days.
#
# limits 5.8.0 from PyPI, the library of Flask-Limiter and slowapi. A limit of "1000 per year" should hold for 365 days or a
# calendar year. It holds for twelve months of 30 days each, so a quota that is paid by the year is refilled five days too early
# each year.
#
# Output seen:
#   1 per day: 1 days
#   1 per month: 30 days
#   1 per year: 360 days
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check limits==5.8.0
venv/bin/python - <<'P' | tee seen
import limits

for text in ["1 per day", "1 per month", "1 per year"]:
    print(f"{text}: {limits.parse(text).get_expiry() // 86_400} days")
P
cmp - seen <<'END'
1 per day: 1 days
1 per month: 30 days
1 per year: 360 days
END
