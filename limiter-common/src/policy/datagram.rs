//! Proofs over UDP: the answer to a question of a new source asks for a proof of its address. An answer has the
//! length of its question and another head, or is no longer than the head.
//!
//! A protocol is a file beside this one, which knows its questions and makes the head of the answer.

use super::{
    handshake::{Segment, TCP, checksum, sum},
    protocols::UDP,
};

/// The longest message that gets an answer, in bytes.
pub const MESSAGE_MAX: usize = 512;
/// Bytes of a UDP header.
pub const HEADER: u32 = 8;
/// Words of a message that an answer may change.
pub const HEAD: usize = 3;
/// Index of the message's first word in [`Segment::words`].
pub const MESSAGE: usize = TCP + 2;

/// The first words of an answer, as in memory, and zeros.
pub type Head = [u32; HEAD];

/// A message, and what is known of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Datagram {
    /// The message. Behind it, zeros up to the next word.
    pub bytes: [u8; MESSAGE_MAX],
    /// Sum of the message's words, and then of the answer's.
    pub sum: u64,
    /// Bytes of the message.
    pub length: u32,
    /// Bytes of the answer; 0: there is none.
    pub answer: u32,
    /// Questions since the last answer, of a limit that does not answer each.
    pub passed_over: u32,
    /// 0, for the alignment.
    pub reserved: u32,
}

impl Datagram {
    /// A byte of the message, or of what an earlier one has left behind it.
    #[inline(always)]
    pub const fn byte(&self, index: u32) -> u32 {
        // The remainder bounds the index for the verifier.
        self.bytes[index as usize % MESSAGE_MAX] as u32
    }

    /// Two bytes as a number.
    #[inline(always)]
    pub const fn double(&self, index: u32) -> u32 {
        self.byte(index) << 8 | self.byte(index + 1)
    }

    /// Four bytes as a number.
    #[inline(always)]
    pub const fn word(&self, index: u32) -> u32 {
        self.double(index) << 16 | self.double(index + 2)
    }
}

impl Segment {
    /// The destination port of a UDP header.
    #[inline(always)]
    pub const fn destination_port(&self) -> u32 {
        u32::from_be(self.words[TCP]) & 0xffff
    }

    /// Bytes of the message, from the UDP header. None if the packet is no UDP, a fragment, behind IP options or extension
    /// headers, or without a source port: nobody could answer it.
    #[inline(always)]
    pub const fn message_length(&self) -> Option<u32> {
        let (protocol, length) = match self.plain() {
            Some(plain) => plain,
            None => return None,
        };
        let datagram = u32::from_be(self.words[TCP + 1]) >> 16;
        let has_source_port = u32::from_be(self.words[TCP]) >> 16 != 0;
        if protocol != UDP || length != self.ip_length() + datagram || !has_source_port {
            return None;
        }
        datagram.checked_sub(HEADER)
    }

    /// True if the checksums of a datagram are right, whose message has this sum. Over IPv4, it may have none; see also
    /// [`Self::has_right_checksums`].
    #[inline(always)]
    pub fn has_right_sums(&self, message: u64) -> bool {
        let datagram = u32::from_be(self.words[TCP + 1]) >> 16;
        let pseudo = self.pseudo_sum(UDP, datagram);
        let field = self.words[TCP + 1].to_ne_bytes();
        let field = u16::from_ne_bytes([field[2], field[3]]);
        let is_right = if field == 0 {
            self.ipv6 == 0
        } else {
            checksum(pseudo) == !field
                || checksum(pseudo + sum(&self.words[TCP..MESSAGE]) + message) == 0
        };
        is_right && self.has_right_ip_checksum()
    }

    /// Turns a question into its answer: of `length` bytes, which begin with `head`, and whose words have this sum.
    #[inline(always)]
    pub fn answer_message(&mut self, datagram: &Datagram) {
        let length = HEADER + datagram.answer;
        self.return_to_sender(UDP, length);
        self.words[TCP] = self.words[TCP].rotate_left(16);
        self.words[TCP + 1] = (length << 16).to_be();
        let sum = self.pseudo_sum(UDP, length) + sum(&self.words[TCP..MESSAGE]) + datagram.sum;
        // 0 would mean that there is no checksum.
        let checksum = match checksum(sum) {
            0 => 0xffff,
            checksum => checksum,
        };
        let [a, b] = checksum.to_ne_bytes();
        self.words[TCP + 1] |= u32::from_ne_bytes([0, 0, a, b]);
    }
}

/// The sum of an answer's words, of as many bytes as its question or of the head alone. `question` is the sum of the
/// question's words, which began with `before`.
#[inline(always)]
pub fn sum_of_answer(question: u64, before: &Head, head: &Head, is_whole: bool) -> u64 {
    if !is_whole {
        return sum(head);
    }
    let removed: u64 = before.iter().map(|word| u64::from(!word)).sum();
    question + removed + sum(head)
}
