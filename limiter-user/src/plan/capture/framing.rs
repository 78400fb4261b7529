//! Short framings: the headers of loopback interfaces and of PPP.

use network_types::eth::EtherType;

/// The Ethernet type of IPv4.
pub const IPV4: u16 = u16::from_be(EtherType::Ipv4 as u16);
/// The Ethernet type of IPv6.
pub const IPV6: u16 = u16::from_be(EtherType::Ipv6 as u16);
/// The Ethernet type of no protocol: a frame with it is not IP.
pub const NOTHING: u16 = 0;

/// The big-endian number at `offset`; [`NOTHING`] if the bytes end before it.
pub fn type_at(bytes: &[u8], offset: usize) -> u16 {
    let bytes = bytes.get(offset..offset + 2);
    bytes.map_or(NOTHING, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The Ethernet type of an address family in the byte order of any machine. Some systems write the Ethernet type.
pub fn of_family(bytes: &[u8]) -> u16 {
    let Some(family) = bytes.first_chunk() else {
        return NOTHING;
    };
    let family = u32::from_be_bytes(*family);
    match u16::try_from(family).or_else(|_| u16::try_from(family.swap_bytes())) {
        Ok(2) => IPV4,
        // Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS.
        Ok(10 | 23 | 24 | 28 | 30) => IPV6,
        Ok(family @ 0x600..) => family,
        _ => NOTHING,
    }
}

/// The length of the framing of PPP, of which address, control and half of the protocol may be left out, or of Cisco
/// HDLC. Also the Ethernet type of what these bytes carry.
pub fn ppp(bytes: &[u8]) -> (usize, u16) {
    if let [0x0f | 0x8f, _, ..] = bytes {
        return (4, type_at(bytes, 2));
    }
    let begin = if bytes.starts_with(&[0xff, 3]) { 2 } else { 0 };
    let (size, protocol) = match bytes.get(begin) {
        Some(short) if short & 1 == 1 => (1, (*short).into()),
        _ => (2, type_at(bytes, begin)),
    };
    let carries = match protocol {
        0x21 => IPV4,
        0x57 => IPV6,
        _ => NOTHING,
    };
    (begin + size, carries)
}
