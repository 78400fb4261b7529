//! An entry matches its own key only, and a write to one field changes no other field.

use std::cell::Cell;

use limiter_common::table::{
    entry::{
        ADDRESS, BEHIND_MAX, ONE_PACKET, OVER, PASSED, Shared, counter, epoch_in, is_wide, slot_in,
        with_epoch, without_counter,
    },
    key::{Address, KeyMask, SourceKey},
};

/// Two adjacent entries.
type Pair = [[Cell<u64>; 4]; 2];

#[derive(Clone, Copy)]
struct At<'a>(&'a Pair, usize);

impl<'a> Shared for At<'a> {
    type Word = &'a Cell<u64>;

    fn word(self, index: usize) -> &'a Cell<u64> {
        &self.0[self.1][index]
    }

    fn next(self) -> Self {
        Self(self.0, self.1 + 1)
    }
}

const EPOCH: u32 = 200;

/// Writes the entry of a new source with one refused packet.
fn write(pair: &Pair, key: &SourceKey) {
    let entry = At(pair, 0);
    entry.store(ADDRESS, key.first);
    entry.next().store(ADDRESS, key.rest);
    entry.store(PASSED, u64::from(key.port()) | (5 * ONE_PACKET));
    entry.store(OVER, with_epoch(key.limit(), EPOCH) + ONE_PACKET);
}

/// Keys that differ in few bits: of sources, ports and limits, with and without the second half of an address.
fn keys() -> Vec<SourceKey> {
    let half = |half: u64| u64::from_be(half);
    let sources = [
        (KeyMask::interface(), Address::ipv4(1)),
        (KeyMask::prefixes(32, 64), Address::ipv4(0)),
        (KeyMask::prefixes(32, 64), Address::ipv4(1)),
        (KeyMask::prefixes(32, 64), Address::ipv4(1 << 31)),
        (KeyMask::prefixes(32, 128), Address::ipv6([half(1), 0])),
        (
            KeyMask::prefixes(32, 128),
            Address::ipv6([half(1), half(1)]),
        ),
        (
            KeyMask::prefixes(32, 128),
            Address::ipv6([half(1), half(2)]),
        ),
        (
            KeyMask::prefixes(32, 128),
            Address::ipv6([half(2), half(1)]),
        ),
    ];
    let mut keys = Vec::new();
    for (mask, address) in sources {
        let mask = KeyMask { port: 1, ..mask };
        for slot in [0, 1, 2, 3, 4, 5, 31, 32] {
            for port in [0, 1, 2, 3, 4, 8, 12, 16, 255, 256, 0xfffe, 0xffff] {
                let key = mask.key(slot, &address, port);
                assert_eq!((key.slot(), key.port()), (slot, port.into()));
                assert_eq!((key.family(), key.address()), mask.masked(&address));
                keys.push(key);
            }
        }
    }
    keys
}

#[test]
fn entry_belongs_only_to_its_own_key() {
    let keys = keys();
    for own in &keys {
        let pair = Pair::default();
        write(&pair, own);
        for other in &keys {
            let is_of = At(&pair, 0).is_of(other);
            assert_eq!(is_of, own == other, "{own:?}, {other:?}");
        }
    }
}

#[test]
fn entry_stores_its_key_and_counters() {
    for key in keys() {
        let pair = Pair::default();
        write(&pair, &key);
        let entry = At(&pair, 0);
        assert_eq!(entry.key(), key);
        let over = entry.load(OVER);
        assert_eq!((slot_in(over), is_wide(over)), (key.slot(), key.rest != 0));
        assert_eq!((counter(entry.load(PASSED)), counter(over)), (5, 1));
        assert_eq!(without_counter(over), over - ONE_PACKET);
        assert_eq!(without_counter(entry.load(PASSED)), u64::from(key.port()));
    }
}

/// An entry stores only the lower bits of the epoch, which repeat.
#[test]
fn entry_stores_the_epoch_of_its_quota() {
    for present in [0, 1, 127, 128, 200, 255, 256, 1_000, u32::MAX - 1, u32::MAX] {
        for behind in 0..=BEHIND_MAX {
            let epoch = present.wrapping_sub(behind);
            // Only the bits of the epoch change.
            let others = 0xffff_ffff_ffff_00ff;
            let over = with_epoch(with_epoch(others, !epoch), epoch);
            assert_eq!(over & others, others);
            assert_eq!(epoch_in(over, present), epoch, "{present} less {behind}");
            let ahead = present.wrapping_add(behind);
            assert_eq!(epoch_in(with_epoch(0, ahead), present), ahead);
        }
    }
}
