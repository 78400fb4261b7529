//! The busiest sources among very many. Each source is offered once. Only the sources to show are kept.

use std::collections::BTreeMap;

use limiter_common::abi::Source;

use super::sample::Since;

/// The columns by which sources are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By address.
    Source,
    /// By limit, in the order of the configuration.
    Limit,
    /// Packets that pass at present first.
    PassRate,
    /// Packets that are over the limit at present first; dropped packets before those that pass in shadow.
    #[default]
    DropRate,
    /// Passed packets first.
    Passed,
    /// Dropped packets first.
    Dropped,
    /// Packets that passed because of shadow first.
    WouldDrop,
    /// The fewest tokens first.
    Tokens,
    /// The longest held first.
    Held,
    /// The most open connections first.
    Open,
}

/// A source's rank: the highest goes first.
pub type Rank = (u64, [[u64; 3]; 2]);

/// A source as orders see it: packets of its entry and since the last scan, and what its limit says.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// The source's entry.
    pub source: &'a Source,
    /// Its packets since the last scan.
    pub since: Since,
    /// True if packets over its limit pass.
    pub shadow: bool,
    /// The limit's place in the configuration.
    pub limit: u64,
    /// Tokens left.
    pub tokens: f64,
    /// Seconds for which the limit holds the source.
    pub held: Option<f64>,
    /// Open connections, if the limit bounds them.
    pub open: u64,
}

/// The rank of a source in an order. If sources are equal by the column, the order is by packets over the limit at
/// present (`since` the last scan), then by all since the entry was made. Dropped packets count before packets that pass
/// in shadow. Addresses have no rank: the place decides about them.
pub fn rank(order: Order, ranked: &Ranked) -> Rank {
    let (passed, refused) = (ranked.source.passed, ranked.source.refused);
    let split = |over| if ranked.shadow { (0, over) } else { (over, 0) };
    let (dropped, would_drop) = split(refused);
    let by_drops = |(passed, over)| [split(over).0, over, passed];
    let leading = match order {
        Order::Source => return Rank::default(),
        Order::Limit => u64::MAX - ranked.limit,
        Order::PassRate => ranked.since.0,
        Order::DropRate => 0,
        Order::Passed => passed,
        Order::Dropped => dropped,
        Order::WouldDrop => would_drop,
        // The bits of positive numbers are in the order of the numbers.
        Order::Tokens => u64::MAX - ranked.tokens.max(0.0).to_bits(),
        Order::Held => ranked.held.unwrap_or(0.0).to_bits(),
        Order::Open => ranked.open,
    };
    (leading, [ranked.since, (passed, refused)].map(by_drops))
}

/// Adds an item to the at most `most` items with the highest keys. No two items have the same key.
pub fn offer<K: Ord, T>(kept: &mut BTreeMap<K, T>, most: usize, key: K, item: T) {
    let last = kept.first_key_value();
    if kept.len() < most || last.is_some_and(|(last, _)| key > *last) {
        kept.insert(key, item);
    }
    if kept.len() > most {
        kept.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A rank, from packets that passed and that were over the limit, since the last scan and in all.
    fn of(order: Order, shadow: bool, since: Since, (passed, refused): Since) -> Rank {
        let source = Source {
            passed,
            refused,
            ..Source::default()
        };
        let ranked = Ranked {
            source: &source,
            since,
            shadow,
            limit: 0,
            tokens: 0.0,
            held: None,
            open: 0,
        };
        rank(order, &ranked)
    }

    #[test]
    fn each_order_sorts_by_its_counter_and_drops_come_before_shadow() {
        let dropped = |since, all| of(Order::DropRate, false, since, all);
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 5), (5, 6)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 1000)));
        let passed = |since, all| of(Order::PassRate, false, since, all);
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((5, 5), (6, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (1000, 5)));
        assert!(passed((6, 0), (6, 0)) > passed((5, 9), (5, 9)));
        let shadow = of(Order::DropRate, true, (5, 1000), (5, 1000));
        assert!(dropped((5, 5), (5, 5)) > shadow);
    }

    #[test]
    fn every_column_orders_sources() {
        let low = Source {
            passed: 5,
            refused: 5,
            ..Source::default()
        };
        let high = Source {
            passed: 6,
            refused: 6,
            ..low
        };
        let ranked = |source, limit, tokens, held| Ranked {
            source,
            since: (0, 0),
            shadow: false,
            limit,
            tokens,
            held,
            open: u64::from(held.is_some()),
        };
        // Fewer tokens, an earlier limit and a longer hold go first, whatever was dropped.
        let first = ranked(&low, 0, 0.5, Some(2.0));
        let second = ranked(&high, 1, 1.5, None);
        for (order, goes_first) in [
            (Order::Limit, true),
            (Order::Tokens, true),
            (Order::Held, true),
            (Order::Open, true),
            (Order::Passed, false),
            (Order::Dropped, false),
        ] {
            let is_first = rank(order, &first) > rank(order, &second);
            assert_eq!(is_first, goes_first, "{order:?}");
        }
        let shadow = |source| Ranked {
            shadow: true,
            ..ranked(source, 0, 0.0, None)
        };
        let would_drop = |source| rank(Order::WouldDrop, &shadow(source));
        assert!(would_drop(&high) > would_drop(&low));
        let address = |source| rank(Order::Source, &ranked(source, 0, 0.0, None));
        assert_eq!(address(&high), address(&low));
    }

    proptest! {
        /// The result is the first part of a full sort of all items. The order of arrival does not matter.
        #[test]
        fn first_rows_equal_those_of_a_full_sort(
            offered in prop::collection::hash_set((0_u64..20, any::<u32>()), 0..200),
            most in 0_usize..30,
        ) {
            let mut kept = BTreeMap::new();
            for item in &offered {
                offer(&mut kept, most, *item, *item);
                prop_assert!(kept.len() <= most);
            }
            let kept: Vec<_> = kept.into_values().rev().collect();
            let sorted: BTreeSet<_> = offered.into_iter().collect();
            let sorted: Vec<_> = sorted.into_iter().rev().take(most).collect();
            prop_assert_eq!(kept, sorted);
        }
    }
}
