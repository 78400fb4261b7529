//! The busiest sources among very many. Each source is offered once. Only the sources to show are kept.

use std::collections::BTreeMap;

use limiter_common::abi::Source;

use super::live::Since;

/// The order of sources: by their packets at present, and if these are equal, by all since the entry was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most dropped first.
    #[default]
    Dropped,
    /// Most passed first.
    Passed,
}

/// A source's rank in an order: the highest goes first. Dropped packets count before packets that pass in `shadow`.
/// `since`: its packets since the last scan.
pub fn rank(order: Order, shadow: bool, source: &Source, since: Since) -> [[u64; 3]; 2] {
    let all = (source.passed, source.refused);
    let ranks = [since, all].map(|(passed, over)| [if shadow { 0 } else { over }, over, passed]);
    match order {
        Order::Dropped => ranks,
        Order::Passed => ranks.map(|[.., passed]| [passed, 0, 0]),
    }
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
    fn of(order: Order, shadow: bool, since: Since, (passed, refused): Since) -> [[u64; 3]; 2] {
        let source = Source {
            passed,
            refused,
            ..Source::default()
        };
        rank(order, shadow, &source, since)
    }

    #[test]
    fn each_order_sorts_by_its_counter_and_drops_come_before_shadow() {
        use Order::{Dropped, Passed};

        let dropped = |since, all| of(Dropped, false, since, all);
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 5), (5, 6)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 1000)));
        let passed = |since, all| of(Passed, false, since, all);
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((5, 5), (6, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (1000, 5)));
        let shadow = of(Dropped, true, (5, 1000), (5, 1000));
        assert!(dropped((5, 5), (5, 5)) > shadow);
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
