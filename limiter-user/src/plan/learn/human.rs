//! Numbers that people would write.

use crate::config::{Burst, Rate, Unit};

/// Leading digits of a number: never more than half as much again from one to the next.
const LEADING: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];

/// Packets in a minute, of rates below one a second.
const IN_A_MINUTE: [u64; 7] = [5, 8, 10, 15, 20, 30, 40];

const SECOND: u64 = 1_000_000_000;

/// Rates that people would write, in packets, from five a minute to a million a second. Nobody is protected by
/// less than five a minute.
#[must_use]
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

/// The first such number that is not less.
#[must_use]
pub fn up(number: u64) -> u64 {
    numbers().find(|one| *one >= number).unwrap_or(number)
}

/// A burst of `packets`.
#[must_use]
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
    fn numbers_rise_by_no_more_than_half() {
        assert_eq!([1, 7, 9, 11, 1_001].map(up), [1, 8, 10, 12, 1_200]);
        let rates: Vec<f64> = rates().iter().map(Rate::per_second).collect();
        for pair in rates.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] <= 2.001 * pair[0], "{pair:?}");
        }
    }
}
