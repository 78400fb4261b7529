//! What the program reads of a frame, read in user space: Ethernet, VLAN tags, IPv4 or IPv6, and for limits that look
//! there the transport header.

use limiter_common::{
    key::Address,
    rules::{ANY, ANYWHERE, FIRST_FRAGMENT, LATER_FRAGMENT, NONE, WHOLE},
};

const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Extension headers (RFC 8200, section 4; AH: RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

const TAGS_MAX: u32 = 8;
const EXTENSIONS_MAX: u32 = 8;

/// Whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// IPv4 from here, with the packet from its header on.
    Ipv4(Address, &'a [u8]),
    /// IPv6, likewise.
    Ipv6(Address, &'a [u8]),
    /// ARP, from the one who says that it has this address.
    Arp(Address),
    /// Nothing that a limit holds.
    NotIp,
    /// IP or a VLAN tag that is cut short or impossible.
    Malformed,
    /// More VLAN tags than are looked behind.
    TooManyTags,
}

/// Reads a frame from its Ethernet header on. ARP is told apart where `control` traffic is.
#[must_use]
pub fn parse(frame: &[u8], control: bool) -> Parsed<'_> {
    let Some((ethernet, mut rest)) = frame.split_first_chunk::<14>() else {
        return Parsed::NotIp;
    };
    let mut ether_type = u16::from_be_bytes([ethernet[12], ethernet[13]]);
    for _ in 0..TAGS_MAX {
        if ether_type != VLAN && ether_type != SERVICE_VLAN {
            break;
        }
        let Some((tag, behind)) = rest.split_first_chunk::<4>() else {
            return Parsed::Malformed;
        };
        ether_type = u16::from_be_bytes([tag[2], tag[3]]);
        rest = behind;
    }
    match ether_type {
        IPV4 => ipv4(rest).unwrap_or(Parsed::Malformed),
        IPV6 => ipv6(rest).unwrap_or(Parsed::Malformed),
        ARP if control => arp(rest).unwrap_or(Parsed::NotIp),
        VLAN | SERVICE_VLAN => Parsed::TooManyTags,
        _ => Parsed::NotIp,
    }
}

fn ipv4(packet: &[u8]) -> Option<Parsed<'_>> {
    let header = packet.first_chunk::<20>()?;
    let length = header_length(header[0]);
    if header[0] >> 4 != 4 || length < 20 || packet.len() < length {
        return None;
    }
    Some(Parsed::Ipv4(ipv4_at(packet, 12)?, packet))
}

/// Bytes of an IPv4 header.
fn header_length(first: u8) -> usize {
    usize::from(first & 0xf) << 2
}

fn ipv4_at(packet: &[u8], at: usize) -> Option<Address> {
    let address = packet.get(at..)?.first_chunk()?;
    Some(Address::ipv4(u32::from_ne_bytes(*address)))
}

fn ipv6(packet: &[u8]) -> Option<Parsed<'_>> {
    let header = packet.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let (upper, rest) = header[8..].split_first_chunk()?;
    let lower = rest.first_chunk()?;
    let words = [u64::from_ne_bytes(*upper), u64::from_ne_bytes(*lower)];
    Some(Parsed::Ipv6(Address::ipv6(words), packet))
}

/// RFC 826, for IPv4 over Ethernet.
fn arp(packet: &[u8]) -> Option<Parsed<'_>> {
    ipv4_at(packet, 14).map(Parsed::Arp)
}

/// What limits want to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its source.
    pub source: Address,
    /// Transport protocol, or [`ANY`] if it cannot be seen.
    pub protocol: u32,
    /// Source port, [`NONE`], or [`ANY`] if it cannot be seen.
    pub source_port: u32,
    /// Destination port, likewise.
    pub destination_port: u32,
    /// TCP flags, likewise.
    pub flags: u32,
    /// Where it stands in its datagram.
    pub fragment: u32,
    /// Whether it is control traffic.
    pub control: bool,
}

impl Facts {
    /// No more is known than the source.
    #[must_use]
    pub fn of(source: Address) -> Self {
        Self {
            source,
            protocol: ANY,
            source_port: ANY,
            destination_port: ANY,
            flags: ANY,
            fragment: WHOLE,
            control: false,
        }
    }

    /// The port that is part of keys: 0 if there is none, or it cannot be seen.
    #[must_use]
    pub fn key_port(&self) -> u16 {
        u16::try_from(self.destination_port).unwrap_or(0)
    }

    /// What can be seen of a packet, `transport` header and all; none if it has no source.
    #[must_use]
    pub fn read(parsed: &Parsed<'_>, transport: bool) -> Option<Self> {
        let (Parsed::Ipv4(source, _) | Parsed::Ipv6(source, _) | Parsed::Arp(source)) = parsed
        else {
            return None;
        };
        let mut facts = Self::of(*source);
        facts.control = matches!(parsed, Parsed::Arp(_));
        let _ = match parsed {
            Parsed::Ipv4(_, packet) if transport => facts.read_ipv4(packet),
            Parsed::Ipv6(_, packet) if transport => facts.read_ipv6(packet),
            _ => None,
        };
        Some(facts)
    }

    /// Whether something of the transport header cannot be seen that should be in this packet.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let unseen = [self.protocol, self.source_port, self.flags].contains(&ANY);
        unseen && self.fragment != LATER_FRAGMENT && !self.control
    }

    /// Reads on in an IPv4 packet, up to what cannot be seen.
    fn read_ipv4(&mut self, packet: &[u8]) -> Option<()> {
        const MORE_FRAGMENTS: u16 = 0x2000;
        const OFFSET: u16 = 0x1fff;
        let header = packet.first_chunk::<20>()?;
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let protocol = header[9];
        self.protocol = protocol.into();
        self.fragment = place(fragment & OFFSET != 0, fragment & MORE_FRAGMENTS != 0);
        self.read_transport(protocol, packet.get(header_length(header[0])..)?);
        // DHCP (RFC 2131): to the server's port, or the client's.
        self.control = protocol == UDP && matches!(self.destination_port, 67 | 68);
        Some(())
    }

    /// Reads on in an IPv6 packet, up to what cannot be seen.
    fn read_ipv6(&mut self, packet: &[u8]) -> Option<()> {
        let (header, mut rest) = packet.split_first_chunk::<40>()?;
        let (mut next, hop_limit) = (header[6], header[7]);
        self.fragment = ANYWHERE;
        for _ in 0..EXTENSIONS_MAX {
            if !is_extension(next) {
                break;
            }
            let extension = rest.first_chunk::<8>()?;
            if next == FRAGMENT {
                let field = u16::from_be_bytes([extension[2], extension[3]]);
                let place = place(field & 0xfff8 != 0, field & 1 != 0);
                // Another header inside a first fragment does not make it whole again.
                if place != WHOLE {
                    self.fragment = place;
                }
                // The receiver takes the next header of the first fragment.
                if place == LATER_FRAGMENT {
                    return None;
                }
            }
            let size = extension_size(next, extension[1].into());
            // Where it ends beyond the packet, the next look finds nothing.
            rest = rest.get(size..).unwrap_or_default();
            next = extension[0];
        }
        if is_extension(next) {
            return None;
        }
        if self.fragment == ANYWHERE {
            self.fragment = WHOLE;
        }
        self.protocol = next.into();
        self.read_transport(next, rest);
        // Neighbour discovery (RFC 4861): nobody but a neighbour can send it with this hop limit.
        let discovery = rest.first().is_some_and(|kind| matches!(kind, 133..=137));
        self.control = next == ICMPV6 && hop_limit == 255 && discovery
            // DHCPv6 (RFC 8415).
            || next == UDP && matches!(self.destination_port, 546 | 547);
        Some(())
    }

    /// Ports and flags, where they can be seen. A later fragment has its own in the first one.
    fn read_transport(&mut self, protocol: u8, header: &[u8]) {
        if protocol != TCP {
            self.flags = NONE;
        }
        if !matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) {
            (self.source_port, self.destination_port) = (NONE, NONE);
            return;
        }
        if self.fragment == LATER_FRAGMENT {
            return;
        }
        if let Some(&[a, b, c, d]) = header.first_chunk() {
            self.source_port = u16::from_be_bytes([a, b]).into();
            self.destination_port = u16::from_be_bytes([c, d]).into();
        }
        if let (TCP, Some(flags)) = (protocol, header.get(13)) {
            self.flags = (*flags).into();
        }
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

fn is_extension(next: u8) -> bool {
    matches!(
        next,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION
    )
}

fn extension_size(kind: u8, length: usize) -> usize {
    match kind {
        FRAGMENT => 8,
        AUTHENTICATION => (length + 2) << 2,
        _ => (length + 1) << 3,
    }
}
