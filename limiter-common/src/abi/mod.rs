//! The types of the program's constants and maps, shared by kernel program and user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding: see [`crate::pod`]. A changed type or map name
//! raises [`VERSION`], which is part of the path of pinned maps. So a program never opens maps of another shape.

pub mod connections;
pub mod counters;
pub mod events;
pub mod learn;
pub mod log;
pub mod routes;
pub mod rules;

mod constants;
mod maps;

pub use constants::{
    CLOCK_KERNEL, CLOCK_PACKET, Constants, NEXT_FALLBACK, NEXT_FOREIGN, NO_LIMIT, VERSION,
};
pub use maps::{
    Ban, BanCounts, BanKey, Cpu, Ends, KEPT_FOR, LOCKS, Lease, Listed, ORIGIN_MAX, OWNERS_MAX,
    PrefixBans, REASON_MAX, SETS_OF_WORD, Set, Share, Source, Stamp, Table,
};

/// A changed size raises [`VERSION`].
const _: () = {
    use counters::{Counters, LimitCounters};
    use events::{Watch, Watched};
    assert!(size_of::<Set>() == 64, "one cache line");
    assert!(size_of::<Table>() == 160 && size_of::<Share>() == 16);
    assert!(size_of::<Ban>() == 112 && size_of::<BanCounts>() == 40);
    assert!(size_of::<PrefixBans>() == 88 && size_of::<BanKey>() == 24);
    assert!(size_of::<Counters>() == 560 && size_of::<LimitCounters>() == 48);
    assert!(size_of::<Watch>() == 88 && size_of::<Watched>() == 40);
    assert!(size_of::<log::Logging>() == 40);
};
