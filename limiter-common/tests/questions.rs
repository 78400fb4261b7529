//! Questions of DNS against another parser, and what answers keep of them.

use hickory_proto::{
    op::{Message, MessageType, OpCode},
    rr::DNSClass,
    serialize::binary::BinDecodable as _,
};
use limiter_common::policy::{
    datagram::{Datagram, MESSAGE_MAX},
    dns,
};
use proptest::prelude::*;

const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03net\0\0\x01\0\x01";
const ROOT: &[u8] = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

/// The message, behind which an earlier one has left bytes.
fn datagram(message: &[u8]) -> Datagram {
    let mut bytes = [0x5a; MESSAGE_MAX];
    bytes[..message.len()].copy_from_slice(message);
    Datagram {
        bytes,
        sum: 0,
        length: u32::try_from(message.len()).expect("messages are short"),
        answer: 0,
        passed_over: 0,
        reserved: 0,
    }
}

fn is_question(message: &[u8]) -> bool {
    dns::is_question(
        &datagram(message),
        u32::try_from(message.len()).expect("messages are short"),
    )
}

/// True if the other parser finds one question of the class IN and no record but OPT, of no other length.
fn is_question_elsewhere(message: &[u8]) -> bool {
    let Ok(parsed) = Message::from_bytes(message) else {
        return false;
    };
    let is_query = parsed.metadata.message_type == MessageType::Query
        && parsed.metadata.op_code == OpCode::Query
        && !parsed.metadata.authoritative
        && !parsed.metadata.truncation;
    let [query] = &parsed.queries[..] else {
        return false;
    };
    let records = parsed.answers.len() + parsed.authorities.len() + parsed.additionals.len();
    let is_plain = records == 0
        && parsed.signature.is_none()
        && parsed.edns.as_ref().is_none_or(|edns| edns.version() == 0);
    let length = parsed.to_vec().map_or(0, |bytes| bytes.len());
    is_query && is_plain && query.query_class() == DNSClass::IN && length == message.len()
}

/// A message with these labels, and EDNS or not.
fn message(labels: &[Vec<u8>], has_edns: bool) -> Vec<u8> {
    let mut message = QUESTION[..12].to_vec();
    for label in labels {
        message.push(u8::try_from(label.len()).expect("labels are short"));
        message.extend(label);
    }
    message.extend([0, 0, 1, 0, 1]);
    if has_edns {
        message[11] = 1;
        message.extend(OPT);
    }
    message
}

/// Removes the options of EDNS, which are the server's business: the other parser reads each.
fn remove_options(question: &mut Vec<u8>) {
    let mut place = 12;
    while question[place] != 0 {
        place += 1 + usize::from(question[place]);
    }
    let options = place + 5 + OPT.len();
    if question.len() > options {
        question.truncate(options);
        question[options - 2..].fill(0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn question_is_one_for_another_parser_too(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=63), 0..=5),
        has_edns: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..=3),
        cut in 0..=2_usize,
        more in prop::collection::vec(any::<u8>(), 0..=2),
    ) {
        let mut message = message(&labels, has_edns);
        for (place, byte) in changes {
            let place = place.index(message.len());
            message[place] = byte;
        }
        message.truncate(message.len() - cut);
        message.extend(more);
        prop_assume!(message.len() <= MESSAGE_MAX);
        let is_one = is_question(&message);
        if is_one {
            remove_options(&mut message);
        }
        prop_assert_eq!(is_one, is_question_elsewhere(&message), "{:02x?}", message);
    }
}

#[test]
fn longest_name_is_a_question_and_a_longer_one_is_not() {
    // 255 bytes with the lengths and the root.
    let longest = [
        vec![b'a'; 63],
        vec![b'b'; 63],
        vec![b'c'; 63],
        vec![b'd'; 61],
    ];
    assert!(is_question(&message(&longest, true)));
    let longer = [&longest[..3], &[vec![b'd'; 62]]].concat();
    assert!(!is_question(&message(&longer, true)));
    // 127 labels, and 128.
    assert!(is_question(&message(&vec![vec![b'a']; 127], false)));
    assert!(!is_question(&message(&vec![vec![b'a']; 128], false)));
    assert!(is_question(ROOT));
}

#[test]
fn answer_has_qr_and_tc_keeps_rd_and_cd_and_has_ra_with_rd() {
    let words = |first: u32| [first.to_be(), 1_u32.to_be(), 7];
    assert_eq!(dns::head(&words(0x1234_0000)), words(0x1234_8200));
    assert_eq!(dns::head(&words(0x1234_0010)), words(0x1234_8210));
    // RD, RA, Z, AD, CD and a response code.
    assert_eq!(dns::head(&words(0x1234_01ff)), words(0x1234_8390));
}
