//! The busiest sources among very many. Each source is offered once. Only the sources to show are kept.

use std::collections::BTreeMap;

/// The order of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most dropped at present.
    #[default]
    DroppedPerSecond,
    /// Most dropped since the entry was made.
    Dropped,
    /// Most passed at present.
    PassedPerSecond,
    /// Most passed since the entry was made.
    Passed,
}

impl Order {
    const ALL: [(Self, &str); 4] = [
        (Self::DroppedPerSecond, "dropped/s"),
        (Self::Dropped, "dropped"),
        (Self::PassedPerSecond, "passed/s"),
        (Self::Passed, "passed"),
    ];

    /// The order's name for people.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The next order. After the last comes the first.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()].0
    }
}

/// The numbers of a source that rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were over the limit.
    pub over: u64,
    /// True if packets over the limit were dropped, false if they passed because of shadow.
    pub drops: bool,
    /// Packets that passed since the last scan.
    pub passed_since: u64,
    /// Packets that were over the limit since the last scan.
    pub over_since: u64,
}

/// A source's rank in an order: the highest goes first.
pub type Rank = [[u64; 3]; 2];

impl Activity {
    /// Splits packets over the limit into dropped packets and packets that would have been dropped.
    pub fn split(&self, over: u64) -> (u64, u64) {
        if self.drops { (over, 0) } else { (0, over) }
    }

    /// The source's rank. Dropped packets count before packets that would have been dropped.
    pub fn rank(&self, order: Order) -> Rank {
        let all = [self.split(self.over).0, self.over, self.passed];
        let since = [
            self.split(self.over_since).0,
            self.over_since,
            self.passed_since,
        ];
        match order {
            Order::DroppedPerSecond => [since, all],
            Order::Dropped => [all, since],
            Order::PassedPerSecond => [[self.passed_since, 0, 0], [self.passed, 0, 0]],
            Order::Passed => [[self.passed, 0, 0], [self.passed_since, 0, 0]],
        }
    }
}

/// The items with the highest keys among very many. No two items have the same key.
#[derive(Debug)]
pub struct Busiest<K, T> {
    most: usize,
    kept: BTreeMap<K, T>,
}

impl<K: Ord, T> Busiest<K, T> {
    /// Creates a collection that keeps at most `most` items.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
        }
    }

    /// Adds an item. If the collection is full, drops the item with the lowest key.
    pub fn offer(&mut self, key: K, of: T) {
        let last = self.kept.first_key_value();
        if self.kept.len() >= self.most && last.is_none_or(|(last, _)| key < *last) {
            return;
        }
        self.kept.insert(key, of);
        if self.kept.len() > self.most {
            self.kept.pop_first();
        }
    }

    /// The kept items, the highest key first.
    pub fn in_order(self) -> Vec<T> {
        self.kept.into_values().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const USUAL: Activity = Activity {
        passed: 5,
        over: 5,
        drops: true,
        passed_since: 5,
        over_since: 5,
    };

    #[test]
    fn each_order_sorts_by_its_counter_and_drops_come_before_shadow() {
        let more = |change: fn(&mut Activity)| {
            let mut more = USUAL;
            change(&mut more);
            more
        };
        for (order, first) in [
            (Order::DroppedPerSecond, more(|of| of.over_since = 6)),
            (Order::Dropped, more(|of| of.over = 6)),
            (Order::PassedPerSecond, more(|of| of.passed_since = 6)),
            (Order::Passed, more(|of| of.passed = 6)),
        ] {
            assert!(first.rank(order) > USUAL.rank(order), "{order:?}");
        }
        let shadow = more(|of| (of.over, of.over_since, of.drops) = (1000, 1000, false));
        for order in [Order::Dropped, Order::DroppedPerSecond] {
            assert!(USUAL.rank(order) > shadow.rank(order), "{order:?}");
        }
    }

    proptest! {
        /// The result is the first part of a full sort of all items. The order of arrival does not matter.
        #[test]
        fn first_rows_equal_those_of_a_full_sort(
            offered in prop::collection::hash_set((0_u64..20, any::<u32>()), 0..200),
            most in 0_usize..30,
        ) {
            let mut busiest = Busiest::new(most);
            for item in &offered {
                busiest.offer(*item, *item);
                prop_assert!(busiest.kept.len() <= most);
            }
            let sorted: BTreeSet<_> = offered.into_iter().collect();
            let sorted: Vec<_> = sorted.into_iter().rev().take(most).collect();
            prop_assert_eq!(busiest.in_order(), sorted);
        }
    }
}
