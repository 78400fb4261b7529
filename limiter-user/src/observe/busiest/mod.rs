//! Which sources are shown of very many, and in what order: one look at each, and no more is kept than is
//! shown.

use std::{cmp::Ordering, collections::BinaryHeap};

use ipnet::IpNet;
use limiter_common::table::key::SourceKey;

use crate::config::{Key, key::octets};

/// What sources are sorted by; where that is the same, by address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Who is dropped most at present.
    #[default]
    DroppedPerSecond,
    /// Who was dropped most since its entry was made.
    Dropped,
    /// Who sends most that passes at present.
    PassedPerSecond,
    /// Who has sent most that passed.
    Passed,
    /// Who has fewest tokens left.
    Tokens,
    /// Families, addresses, ports.
    Address,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::DroppedPerSecond,
        Self::Dropped,
        Self::PassedPerSecond,
        Self::Passed,
        Self::Tokens,
        Self::Address,
    ];

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DroppedPerSecond => "dropped/s",
            Self::Dropped => "dropped",
            Self::PassedPerSecond => "passed/s",
            Self::Passed => "passed",
            Self::Tokens => "tokens",
            Self::Address => "address",
        }
    }

    /// The one that comes so many after it; they go round.
    #[must_use]
    pub fn after(self, steps: usize) -> Self {
        let at = Self::ALL.iter().position(|order| *order == self);
        Self::ALL[(at.unwrap_or(0) + steps) % Self::ALL.len()]
    }
}

/// The figures of a source that it is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were over the limit.
    pub over: u64,
    /// Whether these were dropped, and did not pass because of shadow.
    pub drops: bool,
    /// Packets that passed since the last look.
    pub passed_since: u64,
    /// Packets that were over the limit since the last look.
    pub over_since: u64,
    /// Tokens left.
    pub tokens: f64,
}

impl Figures {
    /// Its place in an order: the highest goes first. What was dropped goes before what would have been.
    #[must_use]
    pub fn rank(&self, order: Order, place: Place) -> Rank {
        let dropped = |over: u64| if self.drops { over } else { 0 };
        let all = [dropped(self.over), self.over, self.passed];
        let since = [dropped(self.over_since), self.over_since, self.passed_since];
        let figures = match order {
            Order::DroppedPerSecond => [since, all],
            Order::Dropped => [all, since],
            Order::PassedPerSecond => [[self.passed_since, 0, 0], [self.passed, 0, 0]],
            Order::Passed => [[self.passed, 0, 0], [self.passed_since, 0, 0]],
            // Of numbers that are not negative, the bits are in the same order.
            Order::Tokens => [[u64::MAX - self.tokens.abs().to_bits(), 0, 0], since],
            Order::Address => [[0; 3]; 2],
        };
        Rank {
            figures,
            place: std::cmp::Reverse(place),
        }
    }
}

/// Where a source stands among those with the same figures.
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
            address: u128::from_be_bytes(octets(key.address)),
            port: key.port(),
            slot: key.slot(),
        }
    }
}

impl From<IpNet> for Place {
    fn from(network: IpNet) -> Self {
        Self::from(&Key::default().of(0, network.network(), 0))
    }
}

/// A place in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    figures: [[u64; 3]; 2],
    place: std::cmp::Reverse<Place>,
}

/// Which sources are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All.
    #[default]
    All,
    /// Those that a network holds, or that hold it.
    Within(IpNet),
    /// Those with this text, in lower case, in the source or in the limit's name.
    Text(String),
}

impl Filter {
    /// From what was typed: a prefix with a `/`, or any part of what is shown.
    #[must_use]
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

    /// Whether it wants a source of the limit `limit`, shown as `source`.
    #[must_use]
    pub fn wants(&self, source: &str, limit: &str, network: Option<IpNet>) -> bool {
        match self {
            Self::All => true,
            Self::Within(wanted) => network.is_some_and(|network| overlap(*wanted, network)),
            Self::Text(text) => source.contains(text) || limit.to_lowercase().contains(text),
        }
    }

    /// The same of a bucket's key; `limit_wanted` says that of its limit's name, `text` is room to write in.
    #[must_use]
    pub fn wants_key(
        &self,
        of: &Key,
        key: &SourceKey,
        limit_wanted: bool,
        text: &mut String,
    ) -> bool {
        match self {
            Self::All => true,
            Self::Within(wanted) => {
                let network = of.network(key);
                network.is_some_and(|network| overlap(*wanted, network))
            }
            Self::Text(_) if limit_wanted => true,
            Self::Text(wanted) => {
                text.clear();
                // Writing to a string does not fail.
                let _ = of.write(key, text);
                text.contains(wanted)
            }
        }
    }

    /// Whether a limit's name alone makes its sources wanted.
    #[must_use]
    pub fn wants_limit(&self, name: &str) -> bool {
        matches!(self, Self::Text(text) if name.to_lowercase().contains(text))
    }
}

fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The first few of very many: takes one look at each, and keeps no more than it is asked for.
#[derive(Debug)]
pub struct Busiest<T> {
    most: usize,
    /// The last of those that are kept comes out first.
    kept: BinaryHeap<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    rank: Rank,
    of: T,
}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Kept<T> {}

impl<T> PartialOrd for Kept<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Kept<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl<T> Busiest<T> {
    /// Keeps at most `most`.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: BinaryHeap::new(),
        }
    }

    /// Looks at one more.
    pub fn offer(&mut self, rank: Rank, of: T) {
        if self.kept.len() < self.most {
            self.kept.push(Kept { rank, of });
        } else if let Some(mut last) = self.kept.peek_mut()
            && last.rank < rank
        {
            *last = Kept { rank, of };
        }
    }

    /// What was kept, the highest first.
    #[must_use]
    pub fn in_order(self) -> Vec<T> {
        let kept = self.kept.into_sorted_vec().into_iter();
        kept.map(|kept| kept.of).collect()
    }
}

#[cfg(test)]
mod tests;
