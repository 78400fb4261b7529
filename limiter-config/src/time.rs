//! Times of a limit: `hold`, for which it refuses a source after it has refused one of its packets, and `max_delay`, for which
//! it delays packets.

use std::time::Duration;

use limiter_common::arithmetic::{
    bucket::{TAU_MAX, TICK_SHIFT},
    quota::Quota,
};
use serde::{Deserialize, Serialize};

use super::{Invalid, Text, as_text, ensure, invalid};

/// A time of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(Duration);

/// The longest time: 30 days.
const MOST: Duration = Duration::from_secs(30 * 24 * 3_600);

impl Text for Time {
    fn read(text: &str) -> Result<Self, Invalid> {
        let time = humantime::parse_duration(text)
            .ok()
            .filter(|time| (Duration::from_millis(1)..=MOST).contains(time));
        time.map(Self).ok_or_else(|| {
            invalid!("'{text}' is not a time of 1 ms to 30 days: write one as in 10m or 1h 30m")
        })
    }

    fn shown(&self) -> String {
        humantime::format_duration(self.0).to_string()
    }
}

impl Time {
    fn ticks(self) -> u64 {
        u64::try_from(self.0.as_nanos() << TICK_SHIFT).unwrap_or(u64::MAX)
    }

    /// The quota with this longest delay: a deeper bucket, of which the additional part delays packets.
    /// Fails if the qdisc would not keep packets for so long.
    pub fn pace(self, mut quota: Quota) -> Result<Quota, Invalid> {
        /// `fq` drops packets that leave more than 10 s later (its `horizon`).
        const MOST: Duration = Duration::from_secs(5);
        ensure!(
            self.0 <= MOST,
            "a delay of {self} is too long: write at most 5s"
        );
        quota.pace = self.ticks();
        quota.tau = (quota.tau + quota.pace).min(TAU_MAX);
        Ok(quota)
    }

    /// The quota with this hold.
    /// Fails if hold and burst together are too long.
    pub fn hold(self, quota: Quota) -> Result<Quota, Invalid> {
        let hold = self.ticks();
        ensure!(
            hold <= TAU_MAX - quota.tau,
            "a hold of {self} and the time to fill the burst are more than 208 days together: write a shorter hold or a smaller burst"
        );
        Ok(Quota { hold, ..quota })
    }
}

as_text!(Time);
