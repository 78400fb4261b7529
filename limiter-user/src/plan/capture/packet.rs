//! One packet of a capture.

use limiter_config::Direction;

use super::{link::Frame, unread::Unread};

/// A packet, or the reason why it cannot be read. It has no number yet, and the time of the capture.
pub(super) type Read = Result<Packet, Unread>;

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The packet's number in the capture, from 1. Packets that cannot be read have numbers, too.
    pub number: u64,
    /// Arrival time in nanoseconds of a limiter's clock: never before the previous packet, and not long after it.
    pub time: u64,
    /// Arrival time, in nanoseconds since 1970 according to the capture.
    pub captured_at: u64,
    /// The frame that a driver would have shown.
    pub frame: Frame,
    /// True if the capture has only a part of the packet.
    pub is_cut: bool,
    /// True if the host sent the packet or received it, according to the capture; none if the capture does not say it.
    pub direction: Option<Direction>,
}

impl Packet {
    /// True if a limiter for this direction sees the packet. A packet whose direction is not known counts.
    pub fn is_seen(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|known| known == direction)
    }
}
