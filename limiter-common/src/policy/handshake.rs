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
        let (protocol, is_plain, length) = if self.ipv6 != 0 {
            (self.word(1) >> 8, true, 40 + (self.word(1) >> 16))
        } else {
            let (first, fragment) = (self.word(5), self.word(6) & 0x3fff);
            let is_plain = first >> 24 == 0x45 && fragment == 0;
            (self.word(7) >> 16, is_plain, first & 0xffff)
        };
        let is_whole = length == self.ip_length() + self.tcp_length();
        // FIN, SYN, RST, ACK.
        match self.word(TCP + 3) >> 16 & 0x17 {
            _ if protocol & 0xff != PROTOCOL || !is_plain => None,
            0x02 if is_whole => Some(true),
            0x10 | 0x11 => Some(false),
            _ => None,
        }
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
        let addresses = if self.ipv6 != 0 { 2 } else { 8 };
        let length = u64::from((PROTOCOL + self.tcp_length()).to_be());
        let pseudo = sum(&self.words[addresses..TCP]) + length;
        let field = &self.words[TCP + 4].to_ne_bytes();
        let is_partial = checksum(pseudo) == !u16::from_ne_bytes([field[0], field[1]]);
        let ip = if self.ipv6 != 0 {
            0
        } else {
            checksum(sum(&self.words[5..TCP]))
        };
        ip == 0 && (is_partial || checksum(pseudo + sum(&self.words[TCP..])) == 0)
    }

    /// Turns a SYN into its answer of the same length. The only option is MSS, if the SYN has room for one.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a cookie")]
    pub fn answer(&mut self) {
        let (addresses, half) = if self.ipv6 != 0 { (2, 4) } else { (8, 1) };
        for word in addresses..addresses + half {
            self.words.swap(word, word + half);
        }
        let (length, sequence) = (self.tcp_length(), self.word(TCP + 1));
        self.words[TCP] = self.words[TCP].rotate_left(16);
        self.words[TCP + 1] = (self.cookie as u32).to_be();
        self.words[TCP + 2] = sequence.wrapping_add(1).to_be();
        self.words[TCP + 3] = (length << 26 | SYN_ACK << 16 | WINDOW).to_be();
        // Zeros end the options.
        self.words[TCP + 4..].fill(0);
        if length > 20 {
            self.words[TCP + 5] = (MSS | (self.cookie >> 32) as u32).to_be();
        }
        // The SYN may have come far: the answer has the hops of Linux.
        if self.ipv6 != 0 {
            self.words[1] = (self.word(1) & !0xff | HOPS).to_be();
        } else {
            self.words[7] = (HOPS << 24 | PROTOCOL << 16).to_be();
            let [a, b] = checksum(sum(&self.words[5..TCP])).to_ne_bytes();
            self.words[7] |= u32::from_ne_bytes([0, 0, a, b]);
        }
        let sum = sum(&self.words[addresses..]);
        let [a, b] = checksum(sum + u64::from((PROTOCOL + length).to_be())).to_ne_bytes();
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

#[inline(always)]
fn sum(words: &[u32]) -> u64 {
    words.iter().map(|word| u64::from(*word)).sum()
}

/// The checksum of words with this sum, in their order of bytes (RFC 1071).
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
const fn checksum(mut sum: u64) -> u16 {
    let mut round = 0;
    while round < 4 {
        sum = (sum & 0xffff) + (sum >> 16);
        round += 1;
    }
    !(sum as u16)
}
