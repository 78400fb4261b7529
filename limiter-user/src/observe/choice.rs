//! The sources that a view shows: which, in which order, and around which one.

use std::ops::Range;

use ipnet::IpNet;
use limiter_common::table::{key::SourceKey, nat64::Nat64};
use limiter_config::Limit;

use super::Order;

/// The most sources that a view can scroll through. A filter finds the others.
pub const REACHED: usize = 65_536;
/// The sources that are kept for a view at the beginning of the order.
const KEPT: usize = 200;

/// The sources that are let through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Every source.
    #[default]
    All,
    /// Sources within a prefix, and prefixes around it.
    Within(IpNet),
    /// A part of the source or of the limit's name, in small letters.
    Text(String),
}

impl Filter {
    /// Reads what a user types: a prefix, an address, or any text.
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        match limiter_config::lists::prefix(text) {
            _ if text.is_empty() => Self::All,
            Ok(prefix) => Self::Within(prefix),
            Err(_) => Self::Text(text.to_lowercase()),
        }
    }

    /// Returns true if the filter lets a limit's bucket through.
    pub fn accepts(&self, limit: &Limit, key: &SourceKey, nat64: &Nat64) -> bool {
        match self {
            Self::All => true,
            Self::Within(prefix) => {
                let network = limit.key.network(key, nat64);
                network.is_some_and(|network| prefix.contains(&network) || network.contains(prefix))
            }
            Self::Text(text) => {
                limit.name.to_lowercase().contains(text)
                    || limit.key.show(key, nat64).to_lowercase().contains(text)
            }
        }
    }
}

/// The chosen source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chosen {
    /// The first one of the order, whichever it is.
    #[default]
    First,
    /// The last one of the order.
    Last,
    /// This one, at this number when it was last seen.
    Source(SourceKey, usize),
}

/// The sources that a view shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Their order.
    pub order: Order,
    /// True if the order is reversed.
    pub reversed: bool,
    /// Those that are let through.
    pub filter: Filter,
    /// The chosen one.
    pub chosen: Chosen,
    /// Number of sources to describe in front of the chosen one, and behind it.
    pub around: usize,
    /// The number of sources to keep, if the view does not scroll.
    first: Option<usize>,
}

impl Choice {
    /// The first `most` sources.
    pub fn first(most: usize) -> Self {
        Self {
            first: Some(most),
            ..Self::default()
        }
    }

    /// A view that scrolls.
    pub fn scrolled(around: usize) -> Self {
        Self {
            around,
            ..Self::default()
        }
    }

    /// The same sources on another interface: the first one is chosen.
    pub fn anew(&self) -> Self {
        Self {
            chosen: Chosen::First,
            ..self.clone()
        }
    }

    /// The number of sources that a scan must keep: few, unless the view has scrolled away from the first ones.
    pub fn kept(&self) -> usize {
        match (self.first, self.chosen) {
            (Some(most), _) => most,
            (None, Chosen::First) => KEPT.max(self.around),
            (None, Chosen::Source(_, number)) if number + self.around < KEPT / 2 => {
                KEPT.max(self.around)
            }
            (None, Chosen::Source(..) | Chosen::Last) => REACHED,
        }
    }

    /// The number of the chosen source, and the sources to describe. `place_of` finds a source.
    pub fn window(
        &self,
        count: usize,
        place_of: impl Fn(&SourceKey) -> Option<usize>,
    ) -> (usize, Range<usize>) {
        let last = count.saturating_sub(1);
        let chosen = match self.chosen {
            Chosen::First => 0,
            Chosen::Last => last,
            Chosen::Source(key, number) => place_of(&key).unwrap_or(number).min(last),
        };
        let described = match self.first {
            Some(most) => 0..most.min(count),
            None => chosen.saturating_sub(self.around)..(chosen + self.around + 1).min(count),
        };
        (chosen, described)
    }
}

#[cfg(test)]
mod tests {
    use limiter_config::Key;

    use super::*;

    fn limit(name: &str) -> Limit {
        Limit {
            name: name.to_owned(),
            ..Limit::default()
        }
    }

    fn key(address: &str) -> SourceKey {
        Key::default().of(0, address.parse().unwrap(), 0)
    }

    #[test]
    fn filter_is_a_prefix_around_or_within_the_source_or_a_part_of_a_name() {
        for (text, found) in [
            ("", true),
            ("198.51.100.7", true),
            ("198.51.100.0/24", true),
            ("198.51.101.0/24", false),
            ("100.7", true),
            ("100.8", false),
            ("SS", true),
            ("dns", false),
        ] {
            let filter = Filter::read(text);
            let key = key("198.51.100.7");
            let accepted = filter.accepts(&limit("ssh"), &key, &Nat64::WELL_KNOWN);
            assert_eq!(accepted, found, "{text}");
        }
    }

    #[test]
    fn chosen_source_is_followed_and_lies_within_the_described_ones() {
        let mut choice = Choice::scrolled(10);
        assert_eq!(choice.window(0, |_| None), (0, 0..0));
        assert_eq!(choice.window(100, |_| None), (0, 0..11));
        choice.chosen = Chosen::Last;
        assert_eq!(choice.window(100, |_| None), (99, 89..100));
        choice.chosen = Chosen::Source(key("192.0.2.1"), 20);
        assert_eq!(choice.window(100, |_| Some(50)), (50, 40..61));
        // The source has gone: another one is in its place.
        assert_eq!(choice.window(100, |_| None), (20, 10..31));
        assert_eq!(choice.window(5, |_| None), (4, 0..5));
    }

    #[test]
    fn few_sources_are_kept_until_the_view_scrolls() {
        let mut choice = Choice::scrolled(50);
        assert_eq!(choice.kept(), KEPT);
        choice.chosen = Chosen::Source(key("192.0.2.1"), 20);
        assert_eq!(choice.kept(), KEPT);
        choice.chosen = Chosen::Source(key("192.0.2.1"), 90);
        assert_eq!(choice.kept(), REACHED);
        choice.chosen = Chosen::Last;
        assert_eq!(choice.kept(), REACHED);
        assert_eq!(Choice::first(20).kept(), 20);
    }
}
