//! Tells clients apart that send control traffic without an address of their own: hosts from 0.0.0.0 and `::`, by their
//! hardware address, and those behind a DHCP relay.
//!
//! Hardware addresses can be made up as easily as addresses. So they only select one of a fixed number of buckets: a flood
//! of them fills no table, and takes no tokens of the new-source limit. The seed keeps senders from aiming at a bucket.

use network_types::udp::UdpHdr;

use super::{Bytes, PacketInfo, protocols::UDP};
use crate::{
    abi::rules::ANY,
    table::{
        Seed,
        key::{Address, IPV4, SourceKey, Words},
    },
};

/// Buckets of all hosts without an address, and of all clients of relays.
///
/// To use them up, a flood must have as many times the rate of one, by default ten times the total.
pub const CLIENTS: u32 = 1 << CLIENT_BITS;
const CLIENT_BITS: u32 = 10;
/// Buckets of the clients of one relay, so that a sender who pretends to be one has no more than these.
pub const OF_RELAY: u32 = 1 << RELAY_BITS;
const RELAY_BITS: u32 = 4;

/// Ports of a DHCP server or relay, and of a client: of IPv4 (RFC 2131) and IPv6 (RFC 8415).
pub const DHCP: [u32; 2] = [67, 68];
/// See [`DHCP`].
pub const DHCPV6: [u32; 2] = [547, 546];
/// `op` of a message from a client (RFC 2131), and type of a message from a relay (RFC 8415).
const REQUEST: u8 = 1;
const RELAY_FORWARD: u8 = 12;

/// The address in the key of a client with this number, in 0.0.0.0/8: no packet comes from there.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "of twelve bits")]
pub const fn address(number: u64) -> Address {
    Address::ipv4((number as u32).to_be())
}

/// The number of a client with this hardware address that has no address.
#[inline(always)]
pub const fn host(hardware: u64, seed: &Seed) -> u32 {
    1 + mixed(seed, [hardware, 0], 0, CLIENT_BITS)
}

/// The number of a client with this identity behind the relay with this address.
#[inline(always)]
pub const fn behind(relay: Words, identity: Words, seed: &Seed) -> u32 {
    let group = mixed(seed, identity, 1, RELAY_BITS);
    1 + CLIENTS + mixed(seed, relay, 2 + group as u64, CLIENT_BITS)
}

/// So many bits that cannot be guessed without the seed.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "of few bits")]
const fn mixed(seed: &Seed, [first, rest]: Words, scope: u64, bits: u32) -> u32 {
    (seed.mixed(&SourceKey { first, rest, scope }) >> (u64::BITS - bits)) as u32
}

/// The number of the client that has sent control traffic of the link: 1 to twice [`CLIENTS`]; 0 if its source tells.
///
/// `frame` is at the beginning of the frame, `message` at its ARP header or transport header. Without an Ethernet header,
/// only DHCP for IPv4 names its client.
#[inline(always)]
pub fn number<B: Bytes>(frame: &B, message: &B, info: &PacketInfo, seed: &Seed) -> u32 {
    let [first, rest] = info.source.words;
    let is_unknown = first | rest == 0;
    let is_ipv4 = info.source.family == IPV4;
    if info.protocol == UDP {
        let behind_relay = if is_ipv4 && info.destination_port == DHCP[0] {
            match request(message) {
                Some((hardware, _)) if is_unknown => return host(hardware, seed),
                Some((hardware, true)) => Some([hardware, 0]),
                _ => None,
            }
        } else if !is_ipv4 && info.destination_port == DHCPV6[0] {
            relayed(message)
        } else {
            None
        };
        if let Some(identity) = behind_relay {
            return behind(info.source.words, identity, seed);
        }
    }
    if !is_unknown {
        return 0;
    }
    // ARP has no protocol of IP.
    let hardware = if is_ipv4 && info.protocol == ANY {
        arp_sender(message)
    } else {
        frame.sender().map(word)
    };
    match hardware {
        Some(hardware) => host(hardware, seed),
        None => 0,
    }
}

/// Bytes of a hardware address as a word.
#[inline(always)]
pub const fn word(&[a, b, c, d, e, f]: &[u8; 6]) -> u64 {
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

/// The sender's hardware address in an ARP packet.
#[inline(always)]
fn arp_sender<B: Bytes>(message: &B) -> Option<u64> {
    let header = message.peek::<14>()?;
    Some(word(&[
        header[8], header[9], header[10], header[11], header[12], header[13],
    ]))
}

/// The client's hardware address in a DHCP request, and whether a relay has forwarded it.
#[inline(always)]
fn request<B: Bytes>(message: &B) -> Option<(u64, bool)> {
    const OPERATION: usize = UdpHdr::LEN;
    const RELAY: usize = OPERATION + 24;
    const HARDWARE: usize = OPERATION + 28;
    let bytes = message.peek::<{ HARDWARE + 6 }>()?;
    if bytes[OPERATION] != REQUEST {
        return None;
    }
    let relay = bytes[RELAY] | bytes[RELAY + 1] | bytes[RELAY + 2] | bytes[RELAY + 3];
    let hardware = word(&[
        bytes[HARDWARE],
        bytes[HARDWARE + 1],
        bytes[HARDWARE + 2],
        bytes[HARDWARE + 3],
        bytes[HARDWARE + 4],
        bytes[HARDWARE + 5],
    ]);
    Some((hardware, relay != 0))
}

/// The address of the peer that a DHCPv6 relay has had the message from.
#[inline(always)]
fn relayed<B: Bytes>(message: &B) -> Option<Words> {
    const KIND: usize = UdpHdr::LEN;
    const PEER: usize = KIND + 18;
    let bytes = message.peek::<{ PEER + 16 }>()?;
    if bytes[KIND] != RELAY_FORWARD {
        return None;
    }
    let half = |begin: usize| {
        u64::from_ne_bytes([
            bytes[begin],
            bytes[begin + 1],
            bytes[begin + 2],
            bytes[begin + 3],
            bytes[begin + 4],
            bytes[begin + 5],
            bytes[begin + 6],
            bytes[begin + 7],
        ])
    };
    Some([half(PEER), half(PEER + 8)])
}
