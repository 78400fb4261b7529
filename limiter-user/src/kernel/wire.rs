//! Types of `limiter-common` as aya wants to see them.

use limiter_common::{
    counters::{Count, Counters, LimitCounters},
    layout::{Config, Listed, Set, Stamp, Table},
    watch::Watched,
};

/// A value that is copied bytewise between the kernel and this process.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Wire<T>(pub T);

macro_rules! plain_words {
    ($($type:ty),+ $(,)?) => {
        $(
            // SAFETY: `repr(C)` of integers, without padding (asserted at compile time in
            // `limiter_common::layout`): every byte is initialised, and every bit pattern is valid.
            unsafe impl aya::Pod for Wire<$type> {}
        )+
    };
}

plain_words!(
    Config,
    Count,
    Counters,
    LimitCounters,
    Listed,
    Set,
    Stamp,
    Table,
    Watched,
);
