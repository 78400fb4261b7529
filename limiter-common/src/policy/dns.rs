//! Proof `dns-tc`: a question gets itself back as a truncated answer, so that a resolver asks again over TCP, whose
//! handshake proves its address (RFC 7766).

use super::datagram::{Datagram, Head};

/// The port of DNS.
pub const PORT: u32 = 53;

/// Bytes of the header.
const HEADER: u32 = 12;
/// The most bytes of a name (RFC 1035).
const NAME_MAX: u32 = 255;
/// The most labels of a name, and the root.
const LABELS_MAX: u32 = 128;
/// The most bytes of a label.
const LABEL_MAX: u32 = 63;
/// The class of the internet.
const IN: u32 = 1;
/// The type of the record of EDNS (RFC 6891).
const OPT: u32 = 41;
/// Bytes of type, class, time to live and length of a record.
const RECORD: u32 = 10;

/// Of the second and third byte: QR, opcode, AA and TC, which questions have not.
const NO_QUESTION: u32 = 0xfe00;
/// QR, TC.
const TRUNCATED: u32 = 0x8200;
/// The flags that an answer keeps: RD and CD.
const KEPT: u32 = RD | 0x0010;
const RD: u32 = 0x0100;

/// True if the message is one question of the class IN, in ordinary form, which may have an OPT record of version 0 and
/// nothing else. The rest of a message that is too short is an earlier one's: then the lengths do not agree.
#[inline(always)]
pub const fn is_question(message: &Datagram, length: u32) -> bool {
    let is_query = message.double(2) & NO_QUESTION == 0;
    // One question, no answer, no authority.
    if !is_query || message.double(4) != 1 || message.word(6) != 0 {
        return false;
    }
    let (mut next, mut label) = (HEADER, 0);
    while label < LABELS_MAX {
        let bytes = message.byte(next);
        // Longer ones are pointers to other names.
        if bytes > LABEL_MAX {
            return false;
        }
        next += 1 + bytes;
        if bytes == 0 {
            break;
        }
        label += 1;
    }
    if next > HEADER + NAME_MAX || label >= LABELS_MAX || message.double(next + 2) != IN {
        return false;
    }
    next += 4;
    match message.double(10) {
        0 => next == length,
        1 => has_only_edns(message, next, length),
        _ => false,
    }
}

/// True if the message ends with an OPT record at this place.
#[inline(always)]
const fn has_only_edns(message: &Datagram, place: u32, length: u32) -> bool {
    // Its name is the root, and the second byte of its time to live is the version.
    message.byte(place) == 0
        && message.double(place + 1) == OPT
        && message.byte(place + 6) == 0
        && place + 1 + RECORD + message.double(place + 9) == length
}

/// The head of the answer, of the question's length: the question itself, with QR and TC. The OPT record stays as it is:
/// a client that has a cookie of the server drops answers without it (RFC 7873). With RD it has RA: the resolver of glibc
/// takes an answer without records, AA and RA for a referral, before it looks at TC (`send_dg`, resolv/res_send.c).
#[inline(always)]
pub const fn head(question: &Head) -> Head {
    let [first, second, third] = *question;
    let kept = u32::from_be(first) & (0xffff_0000 | KEPT);
    [(kept | TRUNCATED | (kept & RD) >> 1).to_be(), second, third]
}
