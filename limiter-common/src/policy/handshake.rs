//! Handshake proof: the answer to a SYN of a new source carries a SYN cookie. A source that returns the cookie has proven
//! its address.

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use super::protocols::{self, length};
use crate::table::key::Address;

/// Index of the TCP header in [`Segment::words`].
pub const TCP: usize = 10;
/// Words of an IPv6 header and the longest TCP header.
pub const WORDS: usize = TCP + 15;

const PROTOCOL: u32 = protocols::TCP;
const SYN_ACK: u32 = 0x12;
const HOPS: u32 = 64;
/// The window of Linux without window scaling.
const WINDOW: u32 = 64_240;
/// The option MSS, of one word.
const MSS: u32 = 0x0204_0000;

/// The headers of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// The headers, as in memory. The TCP header is right behind the IP header, as in a packet.
    pub words: [u32; WORDS],
    /// 1: IPv6.
    pub ipv6: u32,
    /// Offset of the IP header in the frame.
    pub offset: u32,
    /// The sequence number of the answer; above it, its largest segment.
    pub cookie: u64,
}

impl Segment {
    /// Bytes of the IP header.
    #[inline(always)]
    pub const fn ip_length(&self) -> u32 {
        length(if self.ipv6 != 0 {
            Ipv6Hdr::LEN
        } else {
            Ipv4Hdr::LEN
        })
    }

    /// Bytes of the TCP header, from its length field.
    #[inline(always)]
    pub const fn tcp_length(&self) -> u32 {
        self.word(TCP + 3) >> 28 << 2
    }

    /// A word as a number.
    #[inline(always)]
    const fn word(&self, index: usize) -> u32 {
        u32::from_be(self.words[index])
    }

    /// True if the segment is a SYN without data, or may return a cookie. None if it is neither, or a fragment, or behind IP
    /// options or extension headers. A TCP header without options is enough.
    #[inline(always)]
    pub const fn is_syn(&self) -> Option<bool> {
        let (protocol, length) = match self.plain() {
            Some(plain) => plain,
            None => return None,
        };
        let is_whole = length == self.ip_length() + self.tcp_length();
        // FIN, SYN, RST, ACK.
        match self.word(TCP + 3) >> 16 & 0x17 {
            _ if protocol != PROTOCOL => None,
            0x02 if is_whole => Some(true),
            0x10 | 0x11 => Some(false),
            _ => None,
        }
    }

    /// The protocol behind the IP header, and the length of the packet. None for a fragment, and behind IP options.
    #[inline(always)]
    pub(super) const fn plain(&self) -> Option<(u32, u32)> {
        if self.ipv6 != 0 {
            return Some((self.word(1) >> 8 & 0xff, 40 + (self.word(1) >> 16)));
        }
        let (first, fragment) = (self.word(5), self.word(6) & 0x3fff);
        if first >> 24 != 0x45 || fragment != 0 {
            return None;
        }
        Some((self.word(7) >> 16 & 0xff, first & 0xffff))
    }

    /// The address of the sender, or of the receiver.
    #[inline(always)]
    pub const fn address(&self, of_sender: bool) -> Address {
        let words = &self.words;
        if self.ipv6 == 0 {
            return Address::ipv4(if of_sender { words[8] } else { words[9] });
        }
        let [a, b, c, d] = if of_sender {
            [words[2], words[3], words[4], words[5]]
        } else {
            [words[6], words[7], words[8], words[9]]
        };
        Address::ipv6([double(a, b), double(c, d)])
    }

    /// True if the checksums of the headers are right, which have no data behind them. Words behind the TCP header are 0.
    ///
    /// A sender on this machine may leave the rest of the TCP checksum to the interface, so that there is only the sum of
    /// the pseudo-header. The program cannot see whether that is so.
    #[inline(always)]
    pub fn has_right_checksums(&self) -> bool {
        let pseudo = self.pseudo_sum(PROTOCOL, self.tcp_length());
        let field = &self.words[TCP + 4].to_ne_bytes();
        let is_partial = checksum(pseudo) == !u16::from_ne_bytes([field[0], field[1]]);
        self.has_right_ip_checksum()
            && (is_partial || checksum(pseudo + sum(&self.words[TCP..])) == 0)
    }

    /// The sum of the pseudo-header for this protocol and so many bytes behind the IP header.
    #[inline(always)]
    pub(super) fn pseudo_sum(&self, protocol: u32, length: u32) -> u64 {
        let addresses = if self.ipv6 != 0 { 2 } else { 8 };
        sum(&self.words[addresses..TCP]) + u64::from((protocol + length).to_be())
    }

    #[inline(always)]
    pub(super) fn has_right_ip_checksum(&self) -> bool {
        self.ipv6 != 0 || checksum(sum(&self.words[5..TCP])) == 0
    }

    /// Turns the IP header into that of an answer with so many bytes behind it.
    #[inline(always)]
    pub(super) fn return_to_sender(&mut self, protocol: u32, length: u32) {
        let (addresses, half) = if self.ipv6 != 0 { (2, 4) } else { (8, 1) };
        for word in addresses..addresses + half {
            self.words.swap(word, word + half);
        }
        // The packet may have come far: the answer has the hops of Linux.
        if self.ipv6 != 0 {
            self.words[1] = (length << 16 | protocol << 8 | HOPS).to_be();
        } else {
            let first = self.word(5) & 0xffff_0000;
            self.words[5] = (first | (self.ip_length() + length)).to_be();
            self.words[7] = (HOPS << 24 | protocol << 16).to_be();
            let [a, b] = checksum(sum(&self.words[5..TCP])).to_ne_bytes();
            self.words[7] |= u32::from_ne_bytes([0, 0, a, b]);
        }
    }

    /// Turns a SYN into its answer of the same length. The only option is MSS, if the SYN has room for one.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a cookie")]
    pub fn answer(&mut self) {
        let (length, sequence) = (self.tcp_length(), self.word(TCP + 1));
        self.return_to_sender(PROTOCOL, length);
        self.words[TCP] = self.words[TCP].rotate_left(16);
        self.words[TCP + 1] = (self.cookie as u32).to_be();
        self.words[TCP + 2] = sequence.wrapping_add(1).to_be();
        self.words[TCP + 3] = (length << 26 | SYN_ACK << 16 | WINDOW).to_be();
        // Zeros end the options.
        self.words[TCP + 4..].fill(0);
        if length > 20 {
            self.words[TCP + 5] = (MSS | (self.cookie >> 32) as u32).to_be();
        }
        let sum = self.pseudo_sum(PROTOCOL, length) + sum(&self.words[TCP..]);
        let [a, b] = checksum(sum).to_ne_bytes();
        self.words[TCP + 4] = u32::from_ne_bytes([a, b, 0, 0]);
    }
}

/// Two words as they lie in memory.
#[inline(always)]
const fn double(first: u32, second: u32) -> u64 {
    let (first, second) = (first as u64, second as u64);
    if cfg!(target_endian = "big") {
        first << u32::BITS | second
    } else {
        second << u32::BITS | first
    }
}

/// The sum of words.
#[inline(always)]
pub(super) fn sum(words: &[u32]) -> u64 {
    words.iter().map(|word| u64::from(*word)).sum()
}

/// The checksum of words with this sum, in their order of bytes (RFC 1071).
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
pub(super) const fn checksum(mut sum: u64) -> u16 {
    let mut round = 0;
    while round < 4 {
        sum = (sum & 0xffff) + (sum >> 16);
        round += 1;
    }
    !(sum as u16)
}
