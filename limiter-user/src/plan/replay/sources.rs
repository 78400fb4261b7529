//! The counters of each source of a capture, for as many sources as there is room.

use std::{cmp::Reverse, collections::HashMap};

use limiter_common::{
    policy::verdict::Reason,
    table::{
        key::{Address, KeyMask, SourceKey},
        nat64::Nat64,
    },
};
use limiter_config::{Key, Parts, Settings, key::Bits};

/// Minimum number of sources kept; fewer in tests, which fill it. The maximum is twice as many.
const KEPT: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// Packets of a source by verdict. The order is that of harm: most dropped first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceCounters {
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that passed only because of shadow; part of `passed`.
    pub would_drop: u64,
    /// Packets that passed.
    pub passed: u64,
}

impl SourceCounters {
    /// True if the source lost a packet, or would have without shadow.
    pub fn is_hit(&self) -> bool {
        self.dropped + self.would_drop > 0
    }
}

/// The sources of the packets read so far.
#[derive(Debug)]
pub struct Sources {
    key: Key,
    mask: KeyMask,
    nat64: Nat64,
    counters: HashMap<SourceKey, SourceCounters>,
    /// Packets of the sources that were dropped to make room.
    others: u64,
}

impl Sources {
    /// Creates an empty collection. Sources are as fine as the finest key of the limits.
    pub fn new(settings: &Settings) -> Self {
        let (limits, nat64) = (&settings.limits, settings.translators());
        let prefixes = limits.iter().filter_map(|limit| match limit.key.parts {
            Parts::Interface | Parts::Destination(_) => None,
            Parts::Source(bits) | Parts::Pair(bits, _) => Some(bits),
            Parts::Flow => Some(Bits::WHOLE),
        });
        let finest = prefixes.reduce(|a, b| Bits {
            ipv4: a.ipv4.max(b.ipv4),
            ipv6: a.ipv6.max(b.ipv6),
        });
        let key = finest.map_or_else(Key::default, |bits| Key {
            parts: Parts::Source(bits),
            by_port: false,
            by_vlan: false,
        });
        Self {
            mask: key.mask(&nat64),
            nat64,
            key,
            counters: HashMap::new(),
            others: 0,
        }
    }

    /// Counts a packet of a source.
    pub fn count(&mut self, source: &Address, reason: Reason) {
        let key = self.mask.key(0, source, 0, &self.nat64);
        let counters = self.counters.entry(key).or_default();
        counters.passed += u64::from(reason.passes());
        counters.dropped += u64::from(!reason.passes());
        counters.would_drop += u64::from(reason.would_drop());
        if self.counters.len() > 2 * KEPT {
            self.make_room();
        }
    }

    /// Keeps the sources that lost or sent the most packets.
    fn make_room(&mut self) {
        let mut all: Vec<_> = self.counters.drain().collect();
        all.select_nth_unstable_by_key(KEPT, |(_, counters)| Reverse(*counters));
        let others = all.drain(KEPT..);
        self.others += others
            .map(|(_, counters)| counters.passed + counters.dropped)
            .sum::<u64>();
        self.counters.extend(all);
    }

    /// The sources, most dropped first, then most passed. Also the packets of all others.
    pub fn finish(self) -> (Vec<(String, SourceCounters)>, u64) {
        let mut all: Vec<_> = self.counters.into_iter().collect();
        // 0.0.0.0 and :: have the same words.
        all.sort_by_key(|(key, counters)| {
            let address = key.address().map(u64::from_be);
            (Reverse(*counters), address, key.family())
        });
        let sources = all
            .into_iter()
            .map(|(key, counters)| (self.key.show_source(&key, &self.nat64), counters));
        (sources.collect(), self.others)
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::{policy::verdict::Reason, table::key::Address};

    use super::{KEPT, Settings, Sources};

    #[test]
    fn busiest_sources_are_kept_within_bounded_memory() {
        let mut sources = Sources::new(&Settings::default());
        let busy = Address::ipv4(u32::from_ne_bytes([192, 0, 2, 7]));
        let many = u32::try_from(5 * KEPT).unwrap();
        for number in 0..many {
            if number % 3 == 0 {
                sources.count(&busy, Reason::Limit);
            }
            sources.count(&Address::ipv4(0x0a00_0000 + number), Reason::Admitted);
            assert!(sources.counters.len() <= 2 * KEPT);
        }
        let (kept, others) = sources.finish();
        assert_eq!(kept[0].0, "192.0.2.7");
        assert_eq!(kept[0].1.dropped, u64::from(many.div_ceil(3)));
        let passed: u64 = kept.iter().map(|(_, counters)| counters.passed).sum();
        assert_eq!(passed + others, u64::from(many));
    }

    #[test]
    fn sources_with_equal_counts_have_one_order() {
        for _ in 0..20 {
            let mut sources = Sources::new(&Settings::default());
            for address in [Address::ipv6([0, 0]), Address::ipv4(0)] {
                sources.count(&address, Reason::Admitted);
            }
            let (kept, _) = sources.finish();
            let shown: Vec<_> = kept.iter().map(|(source, _)| source.as_str()).collect();
            assert_eq!(shown, ["0.0.0.0", "::/64"]);
        }
    }
}
