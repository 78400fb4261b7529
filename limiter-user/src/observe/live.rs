//! What the live view shows, and what must be remembered of the table from one look to the next.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use limiter_common::{abi::Source, table::key::SourceKey};

use crate::config::lists::DENY;

use super::{
    Drops, Interface, Word,
    busiest::{Figures, Filter, Order, Place},
    denied::{self, Denied},
    source::TopSource,
};

/// Which sources are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// In what order.
    pub order: Order,
    /// Which of them.
    pub filter: Filter,
    /// How many at most.
    pub most: usize,
}

/// The attachment at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// All that `status` says.
    pub interface: Interface,
    /// Sources that the filter wants; the first of them are below.
    pub matching: u64,
    /// Since the last look; none where there is nothing to compare with.
    pub elapsed: Option<Duration>,
    /// The sources that are wanted, in order.
    pub sources: Vec<Busy>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// As `top --once` shows it.
    pub source: TopSource,
    /// The addresses that share its bucket; none where it is everybody's.
    pub network: Option<IpNet>,
    /// The list that decides about it before any limit.
    pub listed: Option<Word>,
    /// Why its packets were dropped, if they are of a denied prefix, or of many sources that are not told apart.
    pub reason: Option<Word>,
    /// What it is sorted by.
    pub figures: Figures,
    /// Where it stands among those with the same figures.
    pub place: Place,
}

impl Busy {
    /// A line of drops that are counted for no single source.
    fn of_many(reason: Word, dropped: u64, since: u64) -> Self {
        let (source, limit) = names_of(reason);
        Self::dropped(reason, (source.to_owned(), limit), dropped, since)
    }

    /// The line of a prefix on the deny list, which is shown as `name`.
    #[must_use]
    pub fn denied(prefix: IpNet, name: String, dropped: u64, since: u64) -> Self {
        Self {
            network: Some(prefix),
            listed: Some(DENY),
            place: prefix.into(),
            ..Self::dropped(DENY, (name, denied::LABEL), dropped, since)
        }
    }

    fn dropped(reason: Word, name: (String, &str), dropped: u64, since: u64) -> Self {
        let (source, limit) = name;
        // Sorted by tokens, it comes last.
        let tokens = f64::MAX;
        Self {
            source: TopSource {
                source,
                limit: limit.to_owned(),
                passed_packets: 0,
                dropped_packets: dropped,
                would_drop_packets: 0,
                tokens,
                listed: None,
                passed_packets_per_second: None,
                dropped_packets_per_second: None,
                would_drop_packets_per_second: None,
            },
            network: None,
            listed: None,
            reason: Some(reason),
            figures: Figures {
                over: dropped,
                drops: true,
                over_since: since,
                tokens,
                ..Figures::default()
            },
            place: Place::default(),
        }
    }
}

/// What the columns for source and limit show of drops that are counted for no single source.
#[must_use]
pub fn names_of(reason: Word) -> (&'static str, &'static str) {
    match reason {
        "limit" => ("other sources", "any"),
        "deny" => ("denied sources", denied::LABEL),
        "new_source" => ("new sources", "new source"),
        reason => (reason, reason),
    }
}

/// The drops that `rows` do not show, so that all lines together are what the interface has dropped. `before`: the interface's
/// drops at the last look.
#[must_use]
pub fn rest(drops: &Drops, before: &Drops, rows: &[Busy]) -> Vec<Busy> {
    let shown = |reason: Word, of: fn(&Figures) -> u64| -> u64 {
        let rows = rows.iter();
        let rows = rows.filter(|row| row.figures.drops && row.reason.unwrap_or("limit") == reason);
        rows.map(|row| of(&row.figures)).sum()
    };
    let lines = drops.iter().map(|(reason, count)| {
        let (name, then) = (reason.name(), before.of(reason).packets);
        let since = count.packets.saturating_sub(then);
        let others = count
            .packets
            .saturating_sub(shown(name, |figures| figures.over));
        let others_since = since.saturating_sub(shown(name, |figures| figures.over_since));
        (name, others, others_since)
    });
    let counted = lines.filter(|(_, dropped, _)| *dropped > 0);
    counted
        .map(|(reason, dropped, since)| Busy::of_many(reason, dropped, since))
        .collect()
}

/// So many in `elapsed`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Packets of a source since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// That passed.
    pub passed: u64,
    /// That were over the limit.
    pub over: u64,
}

/// What is remembered of each entry of the table: 12 bytes, whatever the number of sources.
#[derive(Debug, Default)]
pub struct Gauge {
    /// Index of the interface, and when limiter was attached to it.
    of: (u32, String),
    at: Option<Instant>,
    known: Vec<Known>,
    /// What the interface had dropped.
    drops: Drops,
    /// What the deny list had dropped of each prefix.
    pub(super) denied: Denied,
}

/// An entry at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Whose it was, as far as 32 bits tell.
    whose: u32,
    /// The last bits of its figures.
    passed: u32,
    over: u32,
}

/// After so long the last bits of a figure do not tell any more how much has come: half of what they count,
/// at 148.8 million packets a second, which is all that fits on a wire of 100 Gbit/s.
pub const LONGEST: Duration = Duration::from_secs(14);

impl Gauge {
    /// Begins a look at the table with so many entries of the attachment `of`. Returns the time since the
    /// last one, if that was of the same table, and not too long ago.
    pub fn begin(&mut self, of: (u32, String), entries: u64, now: Instant) -> Option<Duration> {
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        let elapsed = self.at.map(|at| now.saturating_duration_since(at));
        let same = self.of == of && self.known.len() == entries;
        if !same {
            self.of = of;
            self.known.clear();
            self.known.resize(entries, Known::default());
            self.denied = Denied::default();
        }
        self.at = Some(now);
        elapsed.filter(|elapsed| same && (Duration::from_nanos(1)..LONGEST).contains(elapsed))
    }

    /// Remembers what the interface has dropped. Returns that of the last look.
    pub fn drops(&mut self, now: Drops) -> Drops {
        std::mem::replace(&mut self.drops, now)
    }

    /// What has come since the last look of the source in the entry of this number, and remembers it. Of one that
    /// was not there, all that it has sent.
    pub fn since(&mut self, number: usize, key: &SourceKey, source: &Source) -> Since {
        let Some(known) = self.known.get_mut(number) else {
            return Since::default();
        };
        let now = Known {
            whose: fingerprint(key),
            passed: low(source.passed),
            over: low(source.refused),
        };
        let last = std::mem::replace(known, now);
        if last.whose != now.whose {
            return Since {
                passed: source.passed,
                over: source.refused,
            };
        }
        Since {
            passed: grown(last.passed, source.passed),
            over: grown(last.over, source.refused),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
const fn low(figure: u64) -> u32 {
    figure as u32
}

/// By how much a figure has grown; all of it, where it began anew.
fn grown(last: u32, figure: u64) -> u64 {
    let grown = low(figure).wrapping_sub(last);
    if grown.cast_signed() < 0 {
        figure
    } else {
        u64::from(grown)
    }
}

/// Tells an entry's owners apart, but for one time in four thousand million. Never that of an entry that was free.
fn fingerprint(key: &SourceKey) -> u32 {
    // An odd number without a pattern: the golden ratio.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let [first, rest] = key.address;
    let mixed = (first ^ rest.rotate_left(23) ^ (u64::from(key.scope) << 32)).wrapping_mul(MIX);
    ((mixed ^ (mixed >> 29)).wrapping_mul(MIX) >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use limiter_common::policy::verdict::Reason;

    use crate::{config::Key, observe::Count};

    fn source(passed: u64, refused: u64) -> Source {
        Source {
            passed,
            refused,
            ..Source::default()
        }
    }

    fn since(passed: u64, over: u64) -> Since {
        Since { passed, over }
    }

    fn key(address: &str) -> SourceKey {
        Key::default().of(0, address.parse().unwrap(), 0)
    }

    #[test]
    fn tells_what_has_come_of_each_source() {
        let mut gauge = Gauge::default();
        let of = || (3, "then".to_owned());
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let (one, other) = (key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(gauge.begin(of(), 4, start), None, "nothing to compare with");
        gauge.since(1, &one, &source(10, 20));
        assert_eq!(gauge.begin(of(), 4, later(2)), Some(Duration::from_secs(2)));
        assert_eq!(gauge.since(1, &one, &source(15, 27)), since(5, 7));
        gauge.begin(of(), 4, later(3));
        assert_eq!(
            gauge.since(1, &other, &source(100, 300)),
            since(100, 300),
            "the entry is another one's"
        );
        gauge.begin(of(), 4, later(4));
        assert_eq!(
            gauge.since(1, &other, &source(101, 4)),
            since(1, 4),
            "a figure that began anew"
        );
        // Not an entry of this table.
        assert_eq!(gauge.since(4, &one, &source(1, 1)), since(0, 0));
    }

    #[test]
    fn figures_may_be_larger_than_what_is_kept_of_them() {
        let mut gauge = Gauge::default();
        gauge.begin((3, String::new()), 1, Instant::now());
        let key = key("192.0.2.1");
        let large = u64::from(u32::MAX);
        gauge.since(0, &key, &source(large, 5 * large));
        let now = source(large + 7, 5 * large + 3_000_000_000 / 2);
        assert_eq!(gauge.since(0, &key, &now), since(7, 1_500_000_000));
    }

    #[test]
    fn compares_nothing_with_another_table_or_with_long_ago() {
        let start = Instant::now();
        let soon = start + Duration::from_secs(1);
        let of = |index| (index, "then".to_owned());
        let mut gauge = Gauge::default();
        gauge.begin(of(1), 4, start);
        assert_eq!(gauge.begin(of(2), 4, soon), None, "another interface");
        assert_eq!(gauge.begin(of(2), 8, soon), None, "another size");
        assert_eq!(gauge.begin(of(2), 8, soon), None, "no time has passed");
        assert_eq!(gauge.begin(of(2), 8, soon + LONGEST), None, "long ago");
        assert!(gauge.begin(of(2), 8, soon + LONGEST * 3 / 2).is_some());
    }

    #[test]
    fn lines_of_many_sources_add_up_to_all_drops() {
        let row = |over, over_since, drops| Busy {
            figures: Figures {
                drops,
                over_since,
                ..Figures::default()
            },
            ..Busy::of_many("limit", over, 0)
        };
        let figures = |row: Busy, over| Busy {
            figures: Figures {
                over,
                ..row.figures
            },
            ..row
        };
        let rows = [figures(row(0, 3, true), 10), figures(row(0, 9, false), 90)];
        let count = |packets| Count { packets, bytes: 0 };
        let drops = |limit, deny| {
            let mut drops = Drops::default();
            drops.set(Reason::Limit, count(limit));
            drops.set(Reason::Deny, count(deny));
            drops.set(Reason::NewSource, count(7));
            drops
        };
        let lines = rest(&drops(25, 40), &drops(20, 30), &rows);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| {
                (
                    line.reason.unwrap(),
                    line.figures.over,
                    line.figures.over_since,
                )
            })
            .collect();
        // A source in shadow drops nothing.
        assert_eq!(
            seen,
            [("limit", 15, 2), ("deny", 40, 10), ("new_source", 7, 0)]
        );
        let labels = names_of("new_source");
        assert_eq!(labels, ("new sources", "new source"));
    }
}
