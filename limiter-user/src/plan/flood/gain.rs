//! The information that a rule gives about a packet.

/// The excess and ordinary traffic, in packets per second, and the packets that stand for them.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The excess that is to be matched.
    pub excess: f64,
    /// Ordinary traffic.
    pub ordinary: f64,
    /// Packets that a weight of one of those now stands for.
    pub per_weight: f64,
    /// Packets that an ordinary one stands for.
    pub each: f64,
}

impl Scale {
    /// The shares of the excess and of ordinary traffic that packets of this weight now, and so many ordinary ones, are.
    pub fn shares(&self, weight: f64, count: f64) -> (f64, f64) {
        let ordinary = count * self.each;
        let share = |part: f64, whole: f64| (part / whole.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let excess = weight * self.per_weight - ordinary;
        (share(excess, self.excess), share(ordinary, self.ordinary))
    }

    /// [`gain`] of a rule that matches packets of this weight now, and so many ordinary ones.
    pub fn gain(&self, weight: f64, count: f64) -> f64 {
        let (share, cost) = self.shares(weight, count);
        gain(share, cost)
    }
}

/// An ordinary packet weighs so many times as much as one of the excess: the excess is uncertain, because ordinary traffic
/// is not the same at each moment, and a rule must not gain by what is more of it by chance.
const ORDINARY: f64 = 4.0;

/// Bits of information that a rule gives about a packet which is of the excess, or ordinary, with equal chance: the rule
/// matches these shares of both. None for a rule that ordinary packets meet as often.
fn gain(share: f64, cost: f64) -> f64 {
    let cost = (ORDINARY * cost).min(1.0);
    if share <= cost {
        return 0.0;
    }
    let part = |of_excess: f64, ordinary: f64| {
        let sum = of_excess + ordinary;
        sum / 2.0 * entropy(of_excess / sum.max(f64::MIN_POSITIVE))
    };
    1.0 - part(share, cost) - part(1.0 - share, 1.0 - cost)
}

/// The entropy of a chance, in bits.
fn entropy(chance: f64) -> f64 {
    let term = |chance: f64| match chance > 0.0 {
        true => -chance * chance.log2(),
        false => 0.0,
    };
    term(chance) + term(1.0 - chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_a_bit_for_a_perfect_rule_and_nothing_for_a_blind_one() {
        assert!((gain(1.0, 0.0) - 1.0).abs() < 1e-9);
        for share in [0.0, 0.3, 1.0] {
            assert!(gain(share, share).abs() < 1e-9, "{share}");
        }
        assert!(gain(0.1, 0.9).abs() < 1e-9, "it matches what is ordinary");
        assert!(gain(0.99, 0.001) > gain(0.99, 0.01));
        assert!(gain(0.92, 0.0) > gain(0.95, 0.005));
        assert!(gain(0.99, 0.001) > gain(0.9, 0.001));
    }
}
