//! Round numbers, as people write them.

use crate::config::{Burst, Rate, Unit};

/// Leading digits of round numbers. Each is at most half as much again as the one before.
const LEADING: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];

/// Rates below one packet per second, in packets per minute.
const IN_A_MINUTE: [u64; 7] = [5, 8, 10, 15, 20, 30, 40];

const SECOND: u64 = 1_000_000_000;

/// Round rates, from five packets per minute to a million per second. A lower rate is never useful.
pub fn rates() -> Vec<Rate> {
    let slow = IN_A_MINUTE.map(|amount| Rate {
        amount,
        period_ns: 60 * SECOND,
        unit: Unit::Packets,
    });
    let fast = numbers().take_while(|number| *number <= 1_000_000);
    let fast = fast.map(Rate::packets_per_second);
    slow.into_iter().chain(fast).collect()
}

/// 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, ...
fn numbers() -> impl Iterator<Item = u64> {
    let below_ten = [1, 2, 3, 4, 5, 6, 8].into_iter();
    let decades = (0..17).map(|decade| 10_u64.pow(decade));
    below_ten.chain(decades.flat_map(|decade| LEADING.map(|leading| leading * decade)))
}

/// The first round number that is not less than `number`.
pub fn up(number: u64) -> u64 {
    numbers().find(|one| *one >= number).unwrap_or(number)
}

/// Creates a burst of `packets`.
pub fn burst(packets: u64) -> Burst {
    Burst {
        tokens: packets,
        unit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_in_bounded_steps() {
        assert_eq!([1, 7, 9, 11, 1_001].map(up), [1, 8, 10, 12, 1_200]);
        let rates: Vec<f64> = rates().iter().map(Rate::per_second).collect();
        for pair in rates.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= 2.001 * pair[0], "{pair:?}");
        }
    }
}
