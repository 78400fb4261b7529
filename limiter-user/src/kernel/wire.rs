//! Types of `limiter-common` as aya wants to see them.

use limiter_common::{
    counters::{Count, Counters, LimitCounters},
    layout::{Config, Listed, Set, Stamp, Table},
    learn::{Flow, Sample, Sighting, Totals},
    watch::Watched,
};

/// A value that is copied bytewise between the kernel and this process.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Wire<T>(pub T);

impl<T> Wire<T>
where
    Self: aya::Pod,
{
    /// The value that these bytes are; none where there are fewer.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<T> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: so many bytes are there, and for such a type every one is valid.
        let Self(value) = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        Some(value)
    }
}

macro_rules! plain_words {
    ($($type:ty),+ $(,)?) => {
        $(
            // SAFETY: `repr(C)` of integers, without padding (asserted at compile time in
            // `limiter_common::layout` and `limiter_common::learn`): every byte is initialised, and every bit pattern is valid.
            unsafe impl aya::Pod for Wire<$type> {}
        )+
    };
}

plain_words!(
    Config,
    Count,
    Counters,
    Flow,
    LimitCounters,
    Listed,
    Sample,
    Set,
    Sighting,
    Stamp,
    Table,
    Totals,
    Watched,
);
