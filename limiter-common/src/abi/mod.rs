//! The types of the program's constants and maps, shared by kernel program and user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. A changed type or map name raises [`VERSION`],
//! which is part of the path of pinned maps. So a program never opens maps of another shape.

pub mod counters;
pub mod events;
pub mod learn;
pub mod rules;

mod constants;
mod maps;

pub use constants::{
    CLOCK_KERNEL, CLOCK_PACKET, Config, NEXT_FALLBACK, NEXT_FOREIGN, NO_LIMIT, VERSION,
};
pub use maps::{
    Ban, Banned, Cpu, KEPT_FOR, LOCKS, Lease, Listed, ORIGIN_MAX, REASON_MAX, SETS_OF_WORD, Set,
    Share, Source, Stamp, Table,
};

use crate::{
    arithmetic::{
        quota::Quota,
        rescale::{PAST_QUOTAS, Rescale, Shape},
        window::Window,
    },
    policy::{
        bits::{ByByte, ByPort, SPLIT_MAX},
        candidates::Candidates,
    },
    table::{
        entry::Entry,
        key::{Address, KeyMask, SLOTS},
    },
};
use counters::{Count, Counters, LimitCounters};
use events::{Budget, Event, Watch, Watched};
use rules::{LIMITS_MAX, Limit, Match, NewSourceQuota, Pattern};

/// Asserts at compile time that a type has exactly the bytes of its fields.
macro_rules! assert_bytes {
    ($($type:ty: $bytes:expr),+ $(,)?) => {
        $(const _: () = assert!(size_of::<$type>() == $bytes);)+
    };
}

assert_bytes! {
    Window: 3 * 8,
    Quota: 8 + 8 + 4 + 4 + 24 + 8 + 8,
    KeyMask: 4 * 16 + 4 * 4,
    Address: 16 + 2 * 4,
    Shape: 8 + 24,
    Rescale: 8 + 2 * 32 + 4 * 8,
    Pattern: 2 * 8 + 2 * 4,
    Match: 10 * 4 + 8 + 24 + 6 * 16 * 4,
    Limit: 2 * size_of::<Match>() + 64 + 8 + 80 + 6 * 4 + PAST_QUOTAS as usize * 104,
    ByByte: 257 * 8,
    ByPort: 257 * 8 + 256 + SPLIT_MAX * 256 * 8,
    Candidates: 2 * 8 + 8 * 8 + 2 * 257 * 8 + 2 * size_of::<ByPort>() + 3 * 8,
    NewSourceQuota: 5 * 8,
    Config: LIMITS_MAX as usize * size_of::<Limit>() + size_of::<Candidates>() + 4 * 40 + 32 + 5 * 8 + SLOTS as usize * 4 + 18 * 4,
    Count: 2 * 8,
    Counters: 24 * 16 + 6 * 8 + 16 * 8,
    LimitCounters: 3 * 16,
    Entry: 4 * 8,
    Set: 64,
    Table: 20 * 8,
    Share: 2 * 8,
    Lease: 3 * 8,
    Listed: 3 * 4,
    Ban: 2 * 8 + 2 * 4 + ORIGIN_MAX + REASON_MAX,
    Banned: 3 * 8,
    Stamp: 8 + 4 + 4 + 8,
    Cpu: 4 * 8,
    Watch: 10 * 8,
    Budget: 2 * 8,
    Watched: 16 + 3 * 8,
    Event: 6 * 8 + 10 * 4,
}
