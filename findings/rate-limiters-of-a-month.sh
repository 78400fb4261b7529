#!/usr/bin/env bash
# A limit for 30 days holds for a moment in rate-limiter-flexible and fast-ratelimit, and one for 24 days holds.
#
# rate-limiter-flexible 11.4.0, fast-ratelimit 3.0.1 and lambda-rate-limiter 4.0.2 from npm, with memory stores. One request per
# 30 days is allowed, and the second one, a moment later, should be refused. The first two libraries allow it: they forget the
# client by a timer, and Node.js fires timers of more than 2^31 ms, which is 24.8 days, at once. rate-limiter-flexible has just
# answered that the client must wait for 30 days, and block() for 30 days is gone as well.
#
# Output seen:
#   24 days: rate-limiter-flexible refused, its block() refused, fast-ratelimit refused, lambda-rate-limiter refused
#   30 days: rate-limiter-flexible allowed, its block() allowed, fast-ratelimit allowed, lambda-rate-limiter refused
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install rate-limiter-flexible@11.4.0 fast-ratelimit@3.0.1 lambda-rate-limiter@4.0.2 --silent --no-audit --no-fund
cat >month.js <<'J'
import lambda from "lambda-rate-limiter";
import fast from "fast-ratelimit";
import flexible from "rate-limiter-flexible";

const ask = (request) => request.then(() => "allowed", () => "refused");
for (const days of [24, 30]) {
  const seconds = days * 24 * 60 * 60;
  const limits = [
    new flexible.RateLimiterMemory({ points: 1, duration: seconds }),
    new flexible.RateLimiterMemory({ points: 1, duration: 1 }),
    new fast.FastRateLimit({ threshold: 1, ttl: seconds }),
    (lambda.default ?? lambda)({ interval: seconds * 1000, uniqueTokenPerInterval: 10 }),
  ];
  const requests = [
    () => limits[0].consume("192.0.2.7"),
    () => limits[1].consume("192.0.2.7"),
    () => limits[2].consume("192.0.2.7"),
    () => limits[3].check(1, "192.0.2.7"),
  ];
  await limits[0].consume("192.0.2.7");
  await limits[1].block("192.0.2.7", seconds);
  await limits[2].consume("192.0.2.7");
  await requests[3]();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const names = ["rate-limiter-flexible", "its block()", "fast-ratelimit", "lambda-rate-limiter"];
  const seen = [];
  for (const [index, name] of names.entries()) seen.push(`${name} ${await ask(requests[index]())}`);
  console.log(`${days} days: ${seen.join(", ")}`);
}
process.exit();
J
node --no-warnings month.js | tee seen
cmp - seen <<'END'
24 days: rate-limiter-flexible refused, its block() refused, fast-ratelimit refused, lambda-rate-limiter refused
30 days: rate-limiter-flexible allowed, its block() allowed, fast-ratelimit allowed, lambda-rate-limiter refused
END
