//! The limit on new sources, for the size of the service.

use limiter_config::{NewSources, Rate};

use super::Watched;

const SECOND: u64 = 1_000_000_000;

/// Rates that can be proposed below the default, in sources per second: more than that needs the default.
const RATES: [u64; 6] = [100, 200, 500, 1_000, 2_000, 5_000];
/// The bursts that can be proposed with them.
const BURSTS: [u64; 6] = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000];

/// The rate is so many times the average of new sources: learning may happen in a quiet hour.
const TIMES_AVERAGE: u64 = 10;
/// The burst is at least so many times the most new sources in one second, and so many seconds of the rate.
const TIMES_MOST: u64 = 4;

/// New sources that came: on average in a second, rounded up, and the most in one second.
pub fn observed(watched: &Watched) -> (u64, u64) {
    let sampler = &watched.sampler;
    let all = (sampler.sources.len() as u64 + sampler.once()) << sampler.halvings;
    let average = all.saturating_mul(SECOND).div_ceil(watched.duration.max(1));
    (average, sampler.most_new())
}

/// The limit for this traffic; the default if that is not enough for it.
pub fn propose(watched: &Watched) -> NewSources {
    let (average, most) = observed(watched);
    let needed = |steps: &[u64], least: u64| steps.iter().copied().find(|step| *step >= least);
    let rate = needed(&RATES, average.saturating_mul(TIMES_AVERAGE));
    let burst = rate.and_then(|rate| needed(&BURSTS, TIMES_MOST * rate.max(most)));
    let (Some(rate), Some(burst)) = (rate, burst) else {
        return NewSources::default();
    };
    NewSources {
        burst: Some(burst),
        ..NewSources::new(Rate::packets_per_second(rate))
    }
}
