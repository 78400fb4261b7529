//! Draws random times: often an equal time, mostly a little later, sometimes much later or earlier.

use fastrand::Rng;
use limiter_config::Settings;

use super::{one, percent};

const DAY: u64 = 86_400_000_000_000;

/// A clock that moves by at most 1.14 years (half of a bucket's range), which a bucket can still tell.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Current time in nanoseconds.
    pub now: u64,
    start: u64,
}

impl Clock {
    /// Begins shortly after boot, or shortly before the buckets' times wrap.
    pub fn new(rng: &mut Rng) -> Self {
        let start = if rng.bool() {
            400 * DAY
        } else {
            (1 << 56) - rng.u64(0..40_000_000_000)
        };
        Self { now: start, start }
    }

    /// Moves the clock.
    pub fn step(&mut self, rng: &mut Rng, settings: &Settings) {
        let now = self.now;
        self.now = match rng.u8(0..200) {
            0 => now + rng.u64(0..20 * DAY),
            1 => now.saturating_sub(rng.u64(0..10_000_000_000)),
            2..=8 => now.saturating_sub(rng.u64(0..2_000_000)),
            9..=110 => now,
            111..=140 => now + tokens(rng, settings),
            _ => now + (1 << rng.u32(0..34)),
        };
        self.now = self.now.clamp(self.start - DAY, self.start + 150 * DAY);
    }
}

/// The time in nanoseconds in which a bucket gets a few tokens, exactly, or slightly less or more.
fn tokens(rng: &mut Rng, settings: &Settings) -> u64 {
    let rate = one(rng, &settings.limits).rate;
    let tokens = if percent(rng, 20) {
        1_522
    } else {
        rng.u64(1..4)
    };
    let time = u128::from(rate.period_ns) * u128::from(tokens) / u128::from(rate.amount);
    u64::try_from(time).unwrap().min(DAY) + rng.u64(0..2)
}
