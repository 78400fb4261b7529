//! The busiest sources among very many. Each source is offered once. Only the sources to show are kept.

use std::collections::BTreeMap;

use limiter_common::abi::Source;

use super::sample::Since;

/// A source's rank: the highest goes first. The order is by packets at present (`since` the last scan), and if these are
/// equal, by all since the entry was made. Dropped packets count before packets that pass in `shadow`; `by_passed`: only
/// passed packets count.
pub fn rank(by_passed: bool, shadow: bool, source: &Source, since: Since) -> [[u64; 3]; 2] {
    let all = (source.passed, source.refused);
    let dropped = |over| if shadow { 0 } else { over };
    [since, all].map(|(passed, over)| match by_passed {
        true => [passed, 0, 0],
        false => [dropped(over), over, passed],
    })
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
    fn of(by_passed: bool, shadow: bool, since: Since, all: Since) -> [[u64; 3]; 2] {
        let (passed, refused) = all;
        let source = Source {
            passed,
            refused,
            ..Source::default()
        };
        rank(by_passed, shadow, &source, since)
    }

    #[test]
    fn each_order_sorts_by_its_counter_and_drops_come_before_shadow() {
        let dropped = |since, all| of(false, false, since, all);
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 5), (5, 6)) > dropped((5, 5), (5, 5)));
        assert!(dropped((5, 6), (5, 5)) > dropped((5, 5), (5, 1000)));
        let passed = |since, all| of(true, false, since, all);
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((5, 5), (6, 5)) > passed((5, 5), (5, 5)));
        assert!(passed((6, 5), (5, 5)) > passed((5, 5), (1000, 5)));
        let shadow = of(false, true, (5, 1000), (5, 1000));
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
