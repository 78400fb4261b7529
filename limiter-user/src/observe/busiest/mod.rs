//! Picks the sources to show among very many, and their order. Each source is offered once. Only the sources to show
//! are kept.

use std::{cmp::Reverse, collections::BTreeMap};

use ipnet::IpNet;
use limiter_common::table::key::SourceKey;

use crate::config::{Key, key::octets};

/// The order of sources; those with equal numbers are sorted by address.
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
    /// Fewest tokens left.
    Tokens,
    /// Family, then address, then port.
    Address,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 6] = [
        Self::DroppedPerSecond,
        Self::Dropped,
        Self::PassedPerSecond,
        Self::Passed,
        Self::Tokens,
        Self::Address,
    ];

    /// The order's name for people.
    pub fn name(self) -> &'static str {
        [
            "dropped/s",
            "dropped",
            "passed/s",
            "passed",
            "tokens",
            "address",
        ][self as usize]
    }

    /// The order `steps` places further in [`Self::ALL`]. After the last comes the first.
    pub fn after(self, steps: usize) -> Self {
        Self::ALL[(self as usize + steps) % Self::ALL.len()]
    }
}

/// The numbers of a source that rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were over the limit.
    pub over: u64,
    /// Whether packets over the limit were dropped. If not, they passed because of shadow.
    pub drops: bool,
    /// Packets that passed since the last scan.
    pub passed_since: u64,
    /// Packets that were over the limit since the last scan.
    pub over_since: u64,
    /// Tokens left.
    pub tokens: f64,
}

impl Activity {
    /// Splits packets over the limit into dropped packets and packets that would have been dropped.
    pub fn split(&self, over: u64) -> (u64, u64) {
        if self.drops { (over, 0) } else { (0, over) }
    }

    /// The source's rank in an order: the highest goes first. Dropped packets count before packets that would have
    /// been dropped.
    pub fn rank(&self, order: Order, place: Place) -> Rank {
        let all = [self.split(self.over).0, self.over, self.passed];
        let since = [
            self.split(self.over_since).0,
            self.over_since,
            self.passed_since,
        ];
        let numbers = match order {
            Order::DroppedPerSecond => [since, all],
            Order::Dropped => [all, since],
            Order::PassedPerSecond => [[self.passed_since, 0, 0], [self.passed, 0, 0]],
            Order::Passed => [[self.passed, 0, 0], [self.passed_since, 0, 0]],
            // The bits of non-negative floats sort like the floats.
            Order::Tokens => [[u64::MAX - self.tokens.abs().to_bits(), 0, 0], since],
            Order::Address => [[0; 3]; 2],
        };
        (numbers, Reverse(place))
    }
}

/// A tie-breaker between sources with equal numbers. No two sources have the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    family: u32,
    address: u128,
    port: u32,
    slot: u32,
}

impl From<&SourceKey> for Place {
    fn from(key: &SourceKey) -> Self {
        Self {
            family: key.family(),
            address: u128::from_be_bytes(octets(key.address())),
            port: key.port(),
            slot: key.slot(),
        }
    }
}

impl From<IpNet> for Place {
    fn from(network: IpNet) -> Self {
        Self {
            port: network.prefix_len().into(),
            ..Self::from(&Key::default().of(0, network.network(), 0))
        }
    }
}

/// A source's rank in an order.
pub type Rank = ([[u64; 3]; 2], Reverse<Place>);

/// A filter on sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All sources.
    #[default]
    All,
    /// Sources inside the network, and sources that contain it.
    Within(IpNet),
    /// Sources with this lower-case text in the source or in the limit's name.
    Text(String),
}

impl Filter {
    /// Parses user input: a prefix with a `/`, or any part of a row's text.
    pub fn new(typed: &str) -> Self {
        let typed = typed.trim();
        if typed.is_empty() {
            return Self::All;
        }
        match typed.parse::<IpNet>() {
            Ok(network) => Self::Within(network.trunc()),
            Err(_) => Self::Text(typed.to_lowercase()),
        }
    }

    /// Whether the filter wants a source of a limit. The limit's name is in lower case. `source`: the source as shown.
    pub fn wants<'s>(
        &self,
        source: impl FnOnce() -> &'s str,
        limit: &str,
        network: impl FnOnce() -> Option<IpNet>,
    ) -> bool {
        match self {
            Self::All => true,
            Self::Within(wanted) => network().is_some_and(|network| overlap(*wanted, network)),
            Self::Text(text) => limit.contains(text) || source().contains(text),
        }
    }
}

fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The items with the highest ranks among very many.
#[derive(Debug)]
pub struct Busiest<T> {
    most: usize,
    kept: BTreeMap<Rank, T>,
}

impl<T> Busiest<T> {
    /// Creates a collection that keeps at most `most` items.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: BTreeMap::new(),
        }
    }

    /// Adds an item. If the collection is full, drops the item with the lowest rank.
    pub fn offer(&mut self, rank: Rank, of: T) {
        let last = self.kept.first_key_value();
        if self.kept.len() >= self.most && last.is_none_or(|(last, _)| rank < *last) {
            return;
        }
        self.kept.insert(rank, of);
        if self.kept.len() > self.most {
            self.kept.pop_first();
        }
    }

    /// The kept items, the highest rank first.
    pub fn in_order(self) -> Vec<T> {
        self.kept.into_values().rev().collect()
    }
}

#[cfg(test)]
mod tests;
