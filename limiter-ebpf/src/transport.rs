//! From the IP header to ports and flags, for limits that match on them: IPv4 options, IPv6 extension
//! headers up to a bound, fragments. What cannot be seen stays [`ANY`], which every limit could match.
//!
//! [`ANY`]: limiter_common::rules::ANY

use limiter_common::rules::{ANYWHERE, FIRST_FRAGMENT, LATER_FRAGMENT, WHOLE};
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use crate::facts::Facts;
use crate::packet::Cursor;

const TCP: u32 = 6;
const UDP: u32 = 17;
const DCCP: u32 = 33;
const ICMPV6: u32 = 58;
const SCTP: u32 = 132;
const UDP_LITE: u32 = 136;

/// Extension headers (RFC 8200, section 4; AH: RFC 4302).
const HOP_BY_HOP: u32 = 0;
const ROUTING: u32 = 43;
const FRAGMENT: u32 = 44;
const AUTHENTICATION: u32 = 51;
const DESTINATION: u32 = 60;

/// A sound packet has each of the five once, and destination options twice.
const EXTENSIONS_MAX: u32 = 8;
/// Bytes of the longest extension header: 256 units of eight.
const EXTENSION_LENGTH_MAX: u32 = 2_048;

/// Protocol, ports, flags and place in the datagram of an IPv4 packet. All its fragments have the same protocol: it is
/// part of the key by which the kernel puts them together.
#[inline(always)]
pub fn read_ipv4(packet: &mut Cursor, facts: &mut Facts) {
    const MORE_FRAGMENTS: u16 = 0x2000;
    const OFFSET: u16 = 0x1fff;
    let Some(header) = packet.peek::<Ipv4Hdr>() else {
        return;
    };
    // SAFETY: `peek` has checked that the header lies within the packet.
    let (vihl, frags, protocol) = unsafe {
        (
            (*header).vihl,
            u16::from_be_bytes((*header).frags),
            (*header).proto as u32,
        )
    };
    facts.protocol = protocol;
    facts.fragment = place(frags & OFFSET != 0, frags & MORE_FRAGMENTS != 0);
    packet.skip(((vihl & 0xf) as usize) << 2);
    read_transport(packet, facts);
    // DHCP (RFC 2131): to the server's port, or the client's.
    if protocol == UDP && (facts.destination_port == 67 || facts.destination_port == 68) {
        facts.control = 1;
    }
}

fn place(later: bool, more: bool) -> u32 {
    if later {
        LATER_FRAGMENT
    } else if more {
        FIRST_FRAGMENT
    } else {
        WHOLE
    }
}

/// What every extension header begins with, and the field of a fragment header.
#[repr(C, packed)]
struct Extension {
    next: u8,
    length: u8,
    fragment: [u8; 2],
    rest: [u8; 4],
}

/// The same of an IPv6 packet. The next header of a later fragment says nothing: the receiver takes that of the first
/// one (RFC 8200, section 4.5).
#[inline(always)]
pub fn read_ipv6(packet: &mut Cursor, facts: &mut Facts) {
    let Some(header) = packet.take::<Ipv6Hdr>() else {
        return;
    };
    // SAFETY: `take` has checked that the header lies within the packet.
    let (mut next, hop_limit) = unsafe { ((*header).next_hdr as u32, (*header).hop_limit) };
    facts.fragment = ANYWHERE;
    for _ in 0..EXTENSIONS_MAX {
        if !is_extension(next) {
            break;
        }
        let Some(extension) = packet.peek::<Extension>() else {
            return;
        };
        // SAFETY: `peek` has checked that it lies within the packet.
        let (following, length, fragment) = unsafe {
            (
                (*extension).next as u32,
                (*extension).length as u32,
                u16::from_be_bytes((*extension).fragment),
            )
        };
        if next == FRAGMENT {
            let place = place(fragment & 0xfff8 != 0, fragment & 1 != 0);
            // Another header inside a first fragment does not make it whole again.
            if place != WHOLE {
                facts.fragment = place;
            }
            if place == LATER_FRAGMENT {
                return;
            }
        }
        let size = extension_size(next, length);
        if size > EXTENSION_LENGTH_MAX {
            return;
        }
        packet.skip(size as usize);
        next = following;
    }
    if is_extension(next) {
        return;
    }
    if facts.fragment == ANYWHERE {
        facts.fragment = WHOLE;
    }
    facts.protocol = next;
    read_transport(packet, facts);
    // Neighbour discovery (RFC 4861): nobody but a neighbour can send it with this hop limit.
    if next == ICMPV6 && hop_limit == 255 && is_neighbour_discovery(packet) {
        facts.control = 1;
    }
    // DHCPv6 (RFC 8415).
    if next == UDP && (facts.destination_port == 546 || facts.destination_port == 547) {
        facts.control = 1;
    }
}

#[inline(always)]
fn is_extension(next: u32) -> bool {
    matches!(
        next,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION
    )
}

/// Bytes of an extension header. A function of its own, so that the verifier does not follow the kinds
/// of headers into every combination.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn extension_size(kind: u32, length: u32) -> u32 {
    match kind {
        FRAGMENT => 8,
        AUTHENTICATION => (length + 2) << 2,
        _ => (length + 1) << 3,
    }
}

/// Router and neighbour solicitation and advertisement, redirect.
#[inline(always)]
fn is_neighbour_discovery(packet: &Cursor) -> bool {
    match packet.peek::<u8>() {
        // SAFETY: `peek` has checked that it lies within the packet.
        Some(kind) => matches!(unsafe { *kind }, 133..=137),
        None => false,
    }
}

#[repr(C, packed)]
struct PortsHdr {
    source: [u8; 2],
    destination: [u8; 2],
}

#[repr(C, packed)]
struct TcpHdr {
    ports: PortsHdr,
    numbers: [u8; 9],
    flags: u8,
}

/// Reads ports and flags. A later fragment has its own in the first one, and a first fragment may be cut before its
/// flags (RFC 1858): then they cannot be seen.
#[inline(always)]
fn read_transport(packet: &Cursor, facts: &mut Facts) {
    let protocol = facts.protocol;
    if protocol != TCP {
        facts.set_no_flags();
    }
    if !matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) {
        facts.set_no_ports();
        return;
    }
    if facts.fragment == LATER_FRAGMENT {
        return;
    }
    let Some(ports) = packet.peek::<PortsHdr>() else {
        return;
    };
    // SAFETY: `peek` has checked that they lie within the packet.
    let (source, destination) = unsafe { ((*ports).source, (*ports).destination) };
    facts.source_port = u16::from_be_bytes(source) as u32;
    facts.destination_port = u16::from_be_bytes(destination) as u32;
    if protocol == TCP
        && let Some(header) = packet.peek::<TcpHdr>()
    {
        // SAFETY: as above.
        facts.flags = unsafe { (*header).flags } as u32;
    }
}
