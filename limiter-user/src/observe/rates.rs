//! Rates of packets, from two readings of counters that `status` takes on request.

use super::{Count, Interface, Limit, PerSecond, Rates, Verdicts};

/// The counters of an interface or a limit.
struct Sums {
    passed: Count,
    dropped: Count,
    would_drop: Count,
}

impl From<&Verdicts> for Sums {
    fn from(verdicts: &Verdicts) -> Self {
        Self {
            passed: verdicts.passed,
            dropped: verdicts.dropped,
            would_drop: verdicts.would_drop,
        }
    }
}

impl From<&Limit> for Sums {
    fn from(limit: &Limit) -> Self {
        Self {
            passed: limit.passed,
            dropped: limit.dropped,
            would_drop: limit.would_drop,
        }
    }
}

impl Sums {
    /// The rates since an earlier reading.
    fn since(&self, before: &Self, seconds: f64) -> Rates {
        let rate = |count: fn(&Self) -> Count| {
            let (now, then) = (count(self), count(before));
            // Counters restart if a limit takes another limit's place.
            let per_second = |now: u64, then| now.saturating_sub(then) as f64 / seconds;
            PerSecond {
                packets: per_second(now.packets, then.packets),
                bits: 8.0 * per_second(now.bytes, then.bytes),
            }
        };
        Rates {
            interval_seconds: seconds,
            passed: rate(|sums| sums.passed),
            dropped: rate(|sums| sums.dropped),
            would_drop: rate(|sums| sums.would_drop),
        }
    }
}

/// Adds the rates since an earlier reading. An attachment that is new since then has none.
pub fn add(interface: &mut Interface, before: &Interface, seconds: f64) {
    let identity = |interface: &Interface| (interface.ifindex, interface.attached_at.clone());
    if identity(interface) != identity(before) || seconds <= 0.0 {
        return;
    }
    let now = Sums::from(&interface.verdicts);
    interface.rates = Some(now.since(&Sums::from(&before.verdicts), seconds));
    for limit in &mut interface.limits {
        let mut limits = before.limits.iter();
        let earlier = limits.find(|earlier| earlier.name == limit.name);
        limit.rates =
            earlier.map(|earlier| Sums::from(&*limit).since(&Sums::from(earlier), seconds));
    }
}
