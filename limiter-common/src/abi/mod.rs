//! The types of the program's constants and maps, shared by kernel program and user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding: see [`crate::plain`]. A changed type or map name
//! raises [`VERSION`], which is part of the path of pinned maps. So a program never opens maps of another shape.

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
