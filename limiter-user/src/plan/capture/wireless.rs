//! Frames of IEEE 802.11, as a monitoring interface captures them: what they carry, if it is not encrypted.

use super::framing::{NOTHING, type_at};

/// Bits of the first byte: the frame's type, and two of data frames.
const TYPE: u8 = 0x0c;
const DATA: u8 = 0x08;
const NO_DATA: u8 = 0x40;
const QOS: u8 = 0x80;

/// Bits of the second byte. With both of [`DISTRIBUTION`], the frame has a fourth address.
const DISTRIBUTION: u8 = 0x03;
const PROTECTED: u8 = 0x40;
const HT_CONTROL: u8 = 0x80;

/// Of QoS control: several packets in one frame.
const AGGREGATE: u8 = 0x80;

/// SNAP, and behind it the two forms of Ethernet encapsulation.
const ENCAPSULATED: [[u8; 6]; 2] = [[0xaa, 0xaa, 3, 0, 0, 0], [0xaa, 0xaa, 3, 0, 0, 0xf8]];

/// The length of the headers, and the Ethernet type of what the frame carries. Frames without data, encrypted frames,
/// later fragments and aggregates carry nothing that can be seen. `padded`: the header fills whole words.
pub fn carries(bytes: &[u8], padded: bool) -> (usize, u16) {
    let nothing = (0, NOTHING);
    let &[kind, flags, ..] = bytes else {
        return nothing;
    };
    let is_fragment = bytes.get(22).is_none_or(|sequence| sequence & 0x0f != 0);
    if kind & (TYPE | NO_DATA) != DATA || flags & PROTECTED != 0 || is_fragment {
        return nothing;
    }
    let mut size = 24;
    if flags & DISTRIBUTION == DISTRIBUTION {
        size += 6;
    }
    if kind & QOS != 0 {
        if bytes
            .get(size)
            .is_none_or(|control| control & AGGREGATE != 0)
        {
            return nothing;
        }
        size += if flags & HT_CONTROL == 0 { 2 } else { 6 };
    }
    if padded {
        size = size.next_multiple_of(4);
    }
    let snap = bytes.get(size..size + 6);
    if !ENCAPSULATED.iter().any(|form| snap == Some(form)) {
        return nothing;
    }
    (size + 8, type_at(bytes, size + 6))
}

/// Bits of radiotap's flags.
const HAS_CHECKSUM: u8 = 0x10;
const IS_PADDED: u8 = 0x20;

/// The length of the radiotap header, and its flags.
fn radiotap(bytes: &[u8]) -> Option<(usize, u8)> {
    const TIMED: u32 = 1;
    const FLAGGED: u32 = 2;
    const MORE: u32 = 1 << 31;
    let word = |offset: usize| {
        let word = bytes.get(offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*word))
    };
    let size = usize::from(type_at(bytes, 2).swap_bytes());
    let present = word(4)?;
    let mut fields = 8;
    let mut last = present;
    while last & MORE != 0 {
        last = word(fields)?;
        fields += 4;
    }
    if present & TIMED != 0 {
        fields = fields.next_multiple_of(8) + 8;
    }
    let flags = if present & FLAGGED == 0 {
        0
    } else {
        *bytes.get(fields)?
    };
    Some((size, flags))
}

/// [`carries`] of a frame behind a radiotap header.
pub fn behind_radiotap(bytes: &[u8]) -> (usize, u16) {
    let Some((size, flags)) = radiotap(bytes) else {
        return (0, NOTHING);
    };
    let frame = bytes.get(size..).unwrap_or_default();
    let (headers, carried) = carries(frame, flags & IS_PADDED != 0);
    (size + headers, carried)
}

/// Bytes of the checksum behind a frame with a radiotap header.
pub fn checksum(bytes: &[u8]) -> u64 {
    match radiotap(bytes) {
        Some((_, flags)) if flags & HAS_CHECKSUM != 0 => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{behind_radiotap, carries, checksum};

    /// A data frame with these first two bytes and headers of `size` bytes, which carries IPv4.
    fn frame(kind: u8, flags: u8, size: usize) -> Vec<u8> {
        let mut frame = vec![0; size];
        frame[..2].copy_from_slice(&[kind, flags]);
        [&frame[..], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45]].concat()
    }

    #[test]
    fn data_frames_carry_packets_behind_their_headers() {
        for (kind, flags, size) in [
            (0x08, 0, 24),
            (0x08, 1, 24),
            (0x08, 3, 30),
            (0x88, 2, 26),
            (0x88, 3, 32),
            (0x88, 0x81, 30),
        ] {
            let seen = carries(&frame(kind, flags, size), false);
            assert_eq!(seen, (size + 8, 0x0800), "{kind:#x} {flags:#x}");
        }
        // The header is longer by 2 bytes.
        assert_eq!(carries(&frame(0x88, 0, 28), true), (36, 0x0800));
    }

    #[test]
    fn frames_without_a_visible_packet_carry_nothing() {
        let beacon = frame(0x80, 0, 24);
        let without_data = frame(0x48, 0, 24);
        let encrypted = frame(0x08, 0x40, 24);
        let mut fragment = frame(0x08, 0, 24);
        fragment[22] = 1;
        let mut aggregate = frame(0x88, 0, 26);
        aggregate[24] = 0x80;
        let mut other = frame(0x08, 0, 24);
        other[24] = 0x42;
        for frame in [
            &beacon[..],
            &without_data,
            &encrypted,
            &fragment,
            &aggregate,
            &other,
            &other[..23],
            &other[..26],
            &[],
        ] {
            assert_eq!(carries(frame, false), (0, 0), "{frame:?}");
        }
    }

    #[test]
    fn radiotap_header_is_skipped_and_says_if_a_checksum_follows() {
        // Time and flags, behind two words that say what is present.
        let header = |flags: u8| {
            let mut header = vec![0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];
            header.extend([9; 8]);
            header.push(flags);
            header
        };
        let behind = |flags, size| [header(flags), frame(0x88, 0, size)].concat();
        assert_eq!(behind_radiotap(&behind(0, 26)), (25 + 34, 0x0800));
        assert_eq!(behind_radiotap(&behind(0x20, 28)), (25 + 36, 0x0800));
        assert_eq!(checksum(&behind(0, 26)), 0);
        assert_eq!(checksum(&behind(0x10, 26)), 4);
        for short in 0..25 {
            let _ = behind_radiotap(&header(0x10)[..short]);
            let _ = checksum(&header(0x10)[..short]);
        }
    }
}
