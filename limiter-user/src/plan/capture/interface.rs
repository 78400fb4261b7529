//! An interface that a capture describes: framing, unit of time and checksum of its packets.

use super::{
    link::Link,
    packet::{Packet, Read},
    unread::Unread,
};

const NANOSECONDS: u64 = 1_000_000_000;

/// An interface of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// Number of the link type.
    pub link: u32,
    /// Units of time per second; none if the capture's value is invalid.
    pub resolution: Option<u64>,
    /// Seconds to add to times.
    pub offset: i64,
    /// Bytes behind each packet that are its checksum.
    pub checksum: u64,
}

impl Interface {
    /// An interface whose description is damaged.
    pub const UNKNOWN: Self = Self {
        link: u32::MAX,
        resolution: None,
        offset: 0,
        checksum: 0,
    };

    fn time(&self, units: u64) -> Result<u64, Unread> {
        let resolution = self.resolution.ok_or(Unread::Interface)?;
        let exact = u128::from(units) * u128::from(NANOSECONDS) / u128::from(resolution);
        let nanoseconds = u64::try_from(exact).unwrap_or(u64::MAX);
        let offset = self.offset.saturating_mul(NANOSECONDS.cast_signed());
        Ok(nanoseconds.saturating_add_signed(offset))
    }

    /// The packet of `length` bytes at this time, of which some are captured. `checksum`: bytes behind it, if they
    /// differ from the interface's. The checksum is no part of the frame: drivers do not show it.
    pub fn packet(&self, units: u64, captured: &[u8], length: u32, checksum: Option<u64>) -> Read {
        let time = self.time(units)?;
        let link = Link::of_number(self.link).ok_or(Unread::Link(self.link))?;
        let checksum = checksum.unwrap_or(self.checksum) + link.checksum(captured);
        let length = u64::from(length).max(captured.len() as u64);
        let length = length.saturating_sub(checksum);
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let captured = &captured[..captured.len().min(most)];
        Ok(Packet {
            number: 0,
            time,
            captured_at: time,
            frame: link.frame(captured, length),
            is_cut: (captured.len() as u64) < length,
            direction: link.direction(captured),
        })
    }
}

/// The units of time per second: a power of ten, or of two. The parser's own function refuses powers of two.
pub(super) fn resolution(written: u8) -> Option<u64> {
    const OF_TWO: u8 = 0x80;
    if written & OF_TWO == 0 {
        10_u64.checked_pow(written.into())
    } else {
        1_u64.checked_shl((written & !OF_TWO).into())
    }
}
