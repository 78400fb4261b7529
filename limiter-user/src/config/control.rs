//! `[control]`: the built-in limits on control traffic.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{Burst, Found, Invalid, Key, Limit, Rate, Unit, key::Source};

/// Name of the limit on each source of control traffic.
pub const CONTROL_LIMIT: &str = "control";
/// Name of the limit on all control traffic of an interface together.
pub const CONTROL_TOTAL: &str = "control-total";

/// Limits on control traffic that is exempt from all other limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Packets of one source per period.
    pub rate: Rate,
    /// The most packets of one source at once; `None`: those of two seconds at the rate.
    pub burst: Option<Burst>,
    /// Packets of all sources per period, and at once those of one second at this rate; `None`: no total.
    pub total: Option<Rate>,
}

impl Default for Control {
    /// 100 packets per second and 200 at once are enough for a router. Linux keeps 1,024 neighbours by default
    /// (`gc_thresh3`). With 10,000 packets per second in total, each may ask almost ten times per second, while a
    /// healthy neighbour asks once in several seconds. Made-up neighbours cannot exceed the total.
    fn default() -> Self {
        Self {
            total: Some(Rate::packets_per_second(10_000)),
            ..Self::without_total()
        }
    }
}

impl Control {
    /// The limits in a record that was written by a version without a total.
    pub(super) fn without_total() -> Self {
        Self {
            rate: Rate::packets_per_second(100),
            burst: None,
            total: None,
        }
    }

    /// The limits on control traffic, each source's first: a neighbour above both is reported as above its own.
    pub fn limits(&self) -> Vec<Limit> {
        let each = Limit {
            burst: Some(self.burst()),
            ..Limit::new(CONTROL_LIMIT, self.rate)
        };
        let total = self.total.map(|rate| Limit {
            key: Key {
                source: Source::Interface,
                by_port: false,
            },
            ..Limit::new(CONTROL_TOTAL, rate)
        });
        [Some(each), total].into_iter().flatten().collect()
    }

    fn burst(&self) -> Burst {
        const TWO_SECONDS: u64 = 2_000_000_000;
        self.burst.unwrap_or_else(|| Burst {
            tokens: self.rate.tokens_in(TWO_SECONDS).max(1),
            unit: None,
        })
    }

    /// All problems, each with its key.
    pub(super) fn problems(&self) -> Vec<Found> {
        let rates = [("rate", Some(self.rate)), ("total", self.total)];
        let in_bits = rates.into_iter().filter_map(|(key, rate)| {
            let rate = rate.filter(|rate| rate.unit == Unit::Bytes)?;
            let why = format!(
                "control traffic is counted in packets, and {rate} is in bits: write a rate as in 100/s"
            );
            Some((key, Invalid::new(why)))
        });
        let mut problems: Vec<_> = in_bits.collect();
        if !problems.is_empty() {
            return problems;
        }
        if let Some(total) = self.total
            && total.compare(&self.rate) == Some(Ordering::Less)
        {
            let why = format!(
                "{total} for all sources is less than the rate of one source: write at least {}",
                self.rate
            );
            problems.push(("total", Invalid::new(why)));
        }
        for (limit, key) in self.limits().iter().zip(["burst", "total"]) {
            if let Err(why) = limit.quota(1) {
                problems.push((key, why));
            }
        }
        problems
    }
}

/// Returns true if this is the name of a built-in limit on control traffic.
pub fn is_control(name: &str) -> bool {
    [CONTROL_LIMIT, CONTROL_TOTAL].contains(&name)
}
