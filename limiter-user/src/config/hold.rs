//! `hold`: the time for which a limit refuses a source after it has refused one of its packets.

use std::time::Duration;

use limiter_common::arithmetic::{
    bucket::{TAU_MAX, TICK_SHIFT},
    quota::Quota,
};
use serde::{Deserialize, Serialize};

use super::{Invalid, Text, as_text, ensure, invalid};

/// The time that a hold lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hold(Duration);

/// The longest hold: 30 days.
const MOST: Duration = Duration::from_secs(30 * 24 * 3_600);

impl Text for Hold {
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

impl Hold {
    /// The quota with this hold.
    /// Fails if hold and burst together are too long.
    pub fn of(self, quota: Quota) -> Result<Quota, Invalid> {
        let ticks = self.0.as_nanos() << TICK_SHIFT;
        let hold = u64::try_from(ticks).unwrap_or(u64::MAX);
        ensure!(
            hold <= TAU_MAX - quota.tau,
            "a hold of {self} and the time to fill the burst are more than 208 days together: write a shorter hold or a smaller burst"
        );
        Ok(Quota { hold, ..quota })
    }
}

as_text!(Hold);
