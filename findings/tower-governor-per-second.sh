#!/usr/bin/env bash
# "per_second(10)" of tower_governor means one request in ten seconds.
#
# tower_governor 0.8.0, with governor 0.10.4 below it. governor's "Quota::per_second(10)" is ten requests per second, and a
# configuration with "per_second(10)" and a burst of one should be that rate too. tower_governor takes the number for the seconds
# between two requests: a hundredth of the rate. A larger number, which should let more through, lets less through.
#
# Output seen:
#   tower_governor, per_second(10): next request in 10000 ms
#   governor, per_second(10): next request in 100 ms
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "ask"
version = "0.0.0"
edition = "2021"
[dependencies]
governor = "=0.10.4"
tower_governor = { version = "=0.8.0", default-features = false }
TOML
cat >src/main.rs <<'RUST'
use governor::clock::Clock;
use governor::{Quota, RateLimiter};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use tower_governor::governor::GovernorConfigBuilder;

fn main() {
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let clock = governor::clock::DefaultClock::default();
    let configuration = GovernorConfigBuilder::default().per_second(10).burst_size(1).finish().unwrap();
    let limiter = configuration.limiter();
    limiter.check_key(&client).unwrap();
    let wait = limiter.check_key(&client).unwrap_err().wait_time_from(clock.now());
    println!("tower_governor, per_second(10): next request in {} ms", (wait.as_millis() + 50) / 100 * 100);

    let one = NonZeroU32::new(1).unwrap();
    let quota = Quota::per_second(NonZeroU32::new(10).unwrap()).allow_burst(one);
    let limiter = RateLimiter::keyed(quota);
    limiter.check_key(&client).unwrap();
    let wait = limiter.check_key(&client).unwrap_err().wait_time_from(clock.now());
    println!("governor, per_second(10): next request in {} ms", (wait.as_millis() + 50) / 100 * 100);
}
RUST
cargo build --quiet
target/debug/ask | tee seen
cmp - seen <<'END'
tower_governor, per_second(10): next request in 10000 ms
governor, per_second(10): next request in 100 ms
END
