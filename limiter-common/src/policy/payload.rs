//! The first bytes of a packet's payload.

use network_types::{tcp::TcpHdr, udp::UdpHdr};

use super::{
    Bytes, PacketInfo,
    protocols::{ICMP, ICMPV6, TCP, UDP, length as bytes},
    transport::bytes_behind,
};
use crate::{
    abi::rules::{ANY, NONE, PATTERN_MAX, PAYLOAD_MAX, WHOLE},
    pod::pod,
};

pub use super::bytes::WORDS;

#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const PAYLOAD_BYTES: u32 = PAYLOAD_MAX as u32;

/// Bytes of a header of UDP, ICMP or ICMPv6.
const HEADER: u32 = bytes(UdpHdr::LEN);

/// The first bytes of a packet's payload, behind the TCP or UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Payload {
    /// The bytes; those behind `length` are undefined.
    pub words: [u64; WORDS],
    /// Number of bytes, at most [`PAYLOAD_MAX`].
    pub length: u32,
    /// 1: the packet or its other fragments may have more bytes, which cannot be seen.
    pub hidden: u32,
}

pod!(Payload: words length hidden);

impl Payload {
    /// The eight bytes from `offset` on, in the order of memory.
    #[inline(always)]
    pub fn word(&self, offset: u32) -> u64 {
        let offset = offset as usize % PAYLOAD_MAX;
        let (index, shift) = (offset / PATTERN_MAX, offset % PATTERN_MAX * 8);
        let word = |index: usize| self.words.get(index).map_or(0, |word| u64::from_be(*word));
        let (first, second) = (word(index), word(index + 1));
        // Twice: a shift by 64 bits is undefined.
        (first << shift | second >> 1 >> (63 - shift)).to_be()
    }

    /// Reads the payload of a packet that is at its transport header. `header`: bytes that the packet has had from its
    /// IP header to the transport header.
    #[inline(always)]
    pub fn read<B: Bytes>(&mut self, packet: &mut B, info: &PacketInfo, header: u32) {
        let mut length = bytes_behind(info, header);
        (self.length, self.hidden) = (0, 1);
        let size = match info.protocol {
            ANY => return,
            TCP | UDP if info.source_port == ANY => return,
            UDP => {
                length = udp_length(packet, length);
                HEADER
            }
            TCP => match tcp_header(packet) {
                Some(size) => size,
                None => return,
            },
            _ => {
                self.hidden = 0;
                return;
            }
        };
        packet.skip(size as usize);
        length = length.saturating_sub(size);
        if length > PAYLOAD_BYTES {
            length = PAYLOAD_BYTES;
        }
        self.length = packet.copy(&mut self.words, length);
        self.hidden = (info.fragment != WHOLE || self.length < length).into();
    }
}

/// Bytes of the payload of a packet that is at its transport header; [`NONE`] or [`ANY`] if it has none, or they cannot
/// be seen. `header`: bytes that the packet has had from its IP header on. Fragments do not show the length of their
/// datagram.
#[inline(always)]
pub fn length<B: Bytes>(packet: &B, info: &PacketInfo, header: u32) -> u32 {
    let protocol = info.protocol;
    if !matches!(protocol, TCP | UDP | ICMP | ICMPV6 | ANY) {
        return NONE;
    }
    if protocol == ANY || info.fragment != WHOLE || info.length == ANY {
        return ANY;
    }
    let length = bytes_behind(info, header);
    match protocol {
        TCP => match tcp_header(packet) {
            Some(size) => length.saturating_sub(size),
            None => ANY,
        },
        UDP => udp_length(packet, length).saturating_sub(HEADER),
        _ => length.saturating_sub(HEADER),
    }
}

/// Bytes of a TCP header. In a first fragment that ends within it, the field that says so may be padding: a header has
/// at least 20 bytes (RFC 9293).
#[inline(always)]
fn tcp_header<B: Bytes>(packet: &B) -> Option<u32> {
    const LEAST: u32 = bytes(TcpHdr::LEN);
    // The upper four bits of this byte count words of four bytes.
    let size = u32::from(packet.peek::<13>()?[12] >> 4) << 2;
    Some(if size < LEAST { LEAST } else { size })
}

/// Bytes of a UDP packet, by its own header or, if that has no sound length, by the IP header.
#[inline(always)]
fn udp_length<B: Bytes>(packet: &B, by_ip: u32) -> u32 {
    let Some(&[.., upper, lower]) = packet.peek::<6>() else {
        return by_ip;
    };
    match u16::from_be_bytes([upper, lower]).into() {
        0 => by_ip,
        own if own > by_ip => by_ip,
        own => own,
    }
}
