#!/usr/bin/env bash
# rate-limit-threshold lets all who wait go at once: five requests in one moment with a limit of three per second.
#
# rate-limit-threshold 0.2.1 from npm. Its "limit()" waits so that no more than three calls end in a second. Of eight requests
# that are started together, as with Promise.all, three should go at once, three after one second and two after two. All five
# that wait go after one second, as would fifty: each of them computes the same delay and takes no place. One after the other
# they are right.
#
# Output seen:
#   together: 3 at 0 s, 5 at 1 s
#   one after the other: 3 at 0 s, 3 at 1 s, 2 at 2 s
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install rate-limit-threshold@0.2.1 --silent --no-audit --no-fund
cat >ask.js <<'J'
import { RateLimitThreshold } from "rate-limit-threshold";

const count = async (name, run) => {
  const limiter = new RateLimitThreshold(3, 1);
  const begin = performance.now();
  const seconds = new Map();
  const request = async () => {
    await limiter.limit();
    const second = Math.round((performance.now() - begin) / 1000);
    seconds.set(second, (seconds.get(second) ?? 0) + 1);
  };
  await run(request);
  console.log(`${name}: ${[...seconds].map(([second, requests]) => `${requests} at ${second} s`).join(", ")}`);
};
await count("together", (request) => Promise.all(Array.from({ length: 8 }, request)));
await count("one after the other", async (request) => {
  for (let number = 0; number < 8; number++) await request();
});
J
node ask.js | tee seen
cmp - seen <<'END'
together: 3 at 0 s, 5 at 1 s
one after the other: 3 at 0 s, 3 at 1 s, 2 at 2 s
END
