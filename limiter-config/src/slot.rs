//! The slot of a limit: its state beside the settings, which stays when the settings change.

use limiter_common::arithmetic::{
    rescale::{PAST_QUOTAS, Rescale, Shape},
    window::Window,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Limit;

/// A limit's position in the maps, and the history of its quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// The limit's name.
    pub name: String,
    /// The number that selects the limit's buckets and counters.
    #[serde(rename = "slot")]
    pub number: u32,
    /// Nanoseconds by which the limit's windows are shifted.
    pub phase: u64,
    /// Number of changes of the quota.
    pub epoch: u32,
    /// The last changes, newest first.
    #[serde(serialize_with = "write_past", deserialize_with = "read_past")]
    pub past: Vec<Rescale>,
}

impl Slot {
    /// A new slot. Its phase is random, so that windows of different limits and hosts do not all begin at once.
    pub fn new(limit: &Limit, number: u32) -> Self {
        Self {
            name: limit.name.clone(),
            number,
            phase: fastrand::u64(0..limit.rate.period_ns),
            epoch: 0,
            past: Vec::new(),
        }
    }

    /// The slot after a change of the limit's quota.
    pub fn changed(&self, change: Rescale) -> Self {
        let mut slot = self.clone();
        slot.epoch = self.epoch.wrapping_add(1);
        slot.past.insert(0, change);
        slot.past.truncate(PAST_QUOTAS as usize);
        slot
    }
}

/// The words of a [`Rescale`] in their order.
type Words = [u64; 13];

fn write_past<S: Serializer>(past: &[Rescale], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(past.iter().map(words))
}

fn read_past<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rescale>, D::Error> {
    let past = Vec::<Words>::deserialize(deserializer)?;
    Ok(past.into_iter().map(from_words).collect())
}

fn words(change: &Rescale) -> Vec<u64> {
    let shape_words = |shape: &Shape| {
        let window = shape.window;
        [shape.tau, window.period, window.phase, window.grant]
    };
    let [a, b] = [&change.from, &change.to].map(shape_words);
    let chunks = [change.chunk_from, change.chunk_to];
    let most = [change.chunk_shift, change.chunks_most];
    [&[change.since][..], &a, &b, &chunks, &most].concat()
}

fn from_words(words: Words) -> Rescale {
    let shape = |start: usize| Shape {
        tau: words[start],
        window: Window {
            period: words[start + 1],
            phase: words[start + 2],
            grant: words[start + 3],
        },
    };
    Rescale {
        since: words[0],
        from: shape(1),
        to: shape(5),
        chunk_from: words[9],
        chunk_to: words[10],
        chunk_shift: words[11],
        chunks_most: words[12],
    }
}
