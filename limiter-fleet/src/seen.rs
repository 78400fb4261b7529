//! The packets that a source was charged between two sightings of its entry.

use limiter_common::table::{Seed, key::SourceKey};

/// Maximum packets of one source that other limits may refund at once.
const TAKEN_BACK: i32 = 16;

/// The last sighting of an entry. Small, because there is one for every entry of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Fingerprint of the key; 0: no source.
    print: u32,
    /// The low 32 bits of [`crate::host::Sighting::admitted`].
    admitted: u32,
}

impl Seen {
    /// Takes the present counter of the source in the entry. Returns the packets charged since the last sighting.
    pub fn update(&mut self, key: &SourceKey, admitted: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits")]
        let lower = admitted as u32;
        let (print, before) = (print(key), *self);
        let more = lower.wrapping_sub(before.admitted).cast_signed();
        if before.print == print && (-TAKEN_BACK..0).contains(&more) {
            // Another limit refused a counted packet, which is refunded.
            return 0;
        }
        *self = Self {
            print,
            admitted: lower,
        };
        if before.print != print || more < 0 {
            // Another source, or one that has left and come back. Or the counters were reset, and the bucket decides.
            return admitted;
        }
        u64::from(more.cast_unsigned())
    }
}

/// A 32-bit fingerprint of a key. Two sources of one entry rarely have equal ones.
fn print(key: &SourceKey) -> u32 {
    (Seed::KNOWN.mixed(key) >> 32) as u32 | 1
}
