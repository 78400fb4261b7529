//! All limits of an interface: the configured ones, and the built-in ones on control traffic.

use super::{
    Burst, Control, Key, Limit, Settings,
    control::{CONTROL_LIMIT, CONTROL_TOTAL},
};

impl Settings {
    /// All limits: the configured ones, and those on control traffic if that is exempt from them.
    pub fn all_limits(&self) -> Vec<Limit> {
        let mut limits = self.limits.clone();
        if self.exempt.control {
            limits.extend(self.control.limits());
        }
        limits
    }
}

impl Control {
    /// The limits on control traffic, each source's first: a neighbour above both is reported as above its own.
    pub fn limits(&self) -> Vec<Limit> {
        let each = Limit {
            burst: Some(self.burst()),
            ..Limit::new(CONTROL_LIMIT, self.rate)
        };
        let total = self.total.map(|rate| Limit {
            key: Key::INTERFACE,
            ..Limit::new(CONTROL_TOTAL, rate)
        });
        [Some(each), total].into_iter().flatten().collect()
    }

    fn burst(&self) -> Burst {
        const TWO_SECONDS: u64 = 2_000_000_000;
        let time = self.rate.period_ns.max(TWO_SECONDS);
        self.burst.unwrap_or_else(|| Burst {
            tokens: self.rate.tokens_in(time).max(1),
            unit: None,
        })
    }
}
