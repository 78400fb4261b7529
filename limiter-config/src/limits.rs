//! All limits of an interface: the configured ones, and the built-in ones on control traffic.

use super::{
    Burst, Control, Exempt, Key, Limit, Rate, Settings,
    control::{CONTROL_LIMIT, CONTROL_ROUTES, CONTROL_TOTAL},
};

impl Settings {
    /// All limits: the configured ones, and those on control traffic if that is exempt from them.
    pub fn all_limits(&self) -> Vec<Limit> {
        let mut limits = self.limits.clone();
        limits.extend(self.control.limits(self.exempt));
        limits
    }
}

impl Control {
    /// The limits on control traffic that is exempt, those of each source first: a neighbour above its own and the total is
    /// reported as above its own.
    pub fn limits(&self, exempt: Exempt) -> Vec<Limit> {
        let each = |name, rate, burst: Option<Burst>| Limit {
            burst: Some(burst.unwrap_or_else(|| two_seconds(rate))),
            ..Limit::new(name, rate)
        };
        let total = self.total.map(|rate| Limit {
            key: Key::INTERFACE,
            ..Limit::new(CONTROL_TOTAL, rate)
        });
        let link = each(CONTROL_LIMIT, self.rate, self.burst);
        let routing = each(CONTROL_ROUTES, self.routing, None);
        let limits = [
            Some(link).filter(|_| exempt.control),
            Some(routing).filter(|_| exempt.has_routing()),
            total.filter(|_| exempt.has_control()),
        ];
        limits.into_iter().flatten().collect()
    }
}

/// The packets of two seconds at this rate, or of its period if that is longer.
fn two_seconds(rate: Rate) -> Burst {
    const TWO_SECONDS: u64 = 2_000_000_000;
    let time = rate.period_ns.max(TWO_SECONDS);
    Burst {
        tokens: rate.tokens_in(time).max(1),
        unit: None,
    }
}
