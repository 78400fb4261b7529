//! The answers: their bytes, their budget, and what gets none.

use std::net::{IpAddr, TcpListener};

use limiter_tests::{hosts::on, need_kernel, raw::Raw, watcher::Watcher};
use serde_json::json;

use super::{
    COOKIE, Client, DNS, DOMAIN, FEW, GAME, INFORMATION, PLAYERS, QUERIES, QUESTION, drops, hosts,
    listen, proven, with_edns,
};

const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]];
/// Both limits need a new bucket.
const WIDE: &str = "[[limit]]\nname = \"wide\"\nkey = \"/24,/48\"\nrate = \"1k/s\"\n";

#[test]
fn question_gets_itself_back_as_truncated_and_nothing_else_changes() {
    need_kernel!();
    let two = format!("{DNS}{WIDE}proof = \"dns-tc\"\n");
    for limits in [DNS, &two] {
        let hosts = hosts(&format!("{FEW}{limits}"));
        let _socket = listen(&hosts, DOMAIN);
        let edns = with_edns(COOKIE);
        let mut number = 0;
        for tags in TAGS {
            for ipv6 in [false, true] {
                for question in [QUESTION, &edns] {
                    number += 1;
                    let client = Client {
                        ipv6,
                        tags,
                        ..Client::new(&hosts, number)
                    };
                    let answer = client.answer(DOMAIN, question);
                    // QR and TC; with RD, RA.
                    let mut wanted = question.to_vec();
                    wanted[2] |= 0x82;
                    wanted[3] |= 0x80;
                    assert_eq!(answer, wanted, "{limits}");
                }
            }
        }
        assert_eq!(
            (drops(&hosts, "answered"), proven(&hosts)),
            (number.into(), 0)
        );
        let shown = hosts.run("status eth0");
        assert!(shown.contains("12 asked for a proof"), "{shown}");
    }
}

#[test]
fn only_what_a_socket_of_the_host_would_get_is_answered() {
    need_kernel!();
    let settings = format!("{FEW}[lists]\ndeny = [\"198.51.100.66\"]\n{DNS}");
    let hosts = hosts(&settings);
    hosts.run("ban eth0 198.51.100.67 --for 10m");
    let client = Client::new(&hosts, 1);
    let question = client.frame(DOMAIN, QUESTION);
    let refused = |frame: &[u8], why: &str| client.refused(frame, "new_source", why);
    refused(&question, "no socket");
    let _socket = listen(&hosts, DOMAIN);
    let _other = listen(&hosts, 5_353);
    let changed = |message: &[u8], place: usize, byte: u8| {
        let mut message = message.to_vec();
        message[place] = byte;
        client.frame(DOMAIN, &message)
    };
    refused(&client.frame(5_353, QUESTION), "another port");
    refused(&changed(QUESTION, 2, 0x81), "an answer");
    refused(&changed(QUESTION, 2, 0x29), "another opcode");
    refused(&changed(QUESTION, 5, 2), "two questions");
    refused(&changed(QUESTION, 7, 1), "a record of an answer");
    refused(&changed(QUESTION, 11, 1), "a missing record");
    refused(&changed(QUESTION, QUESTION.len() - 1, 3), "another class");
    refused(&changed(QUESTION, 12, 0xc0), "a pointer");
    refused(
        &changed(&with_edns(COOKIE), QUESTION.len() + 6, 1),
        "EDNS of another version",
    );
    refused(
        &client.frame(DOMAIN, &[QUESTION, b"\0"].concat()),
        "bytes behind it",
    );
    refused(
        &client.frame(DOMAIN, &QUESTION[..QUESTION.len() - 1]),
        "a byte less",
    );
    refused(&client.frame(DOMAIN, b""), "no message");
    let spoiled = |place: usize, byte: u8| {
        let mut frame = question.clone();
        frame[place] ^= byte;
        frame
    };
    refused(&spoiled(5, 1), "another hardware address");
    refused(&spoiled(25, 1), "a wrong checksum of IP");
    refused(&spoiled(41, 1), "a wrong checksum of UDP");
    let mut fragment = question.clone();
    fragment[20] = 0x20;
    fragment[24] ^= 0x20;
    refused(&fragment, "a fragment");
    let mut from_nowhere = question.clone();
    from_nowhere[34..36].fill(0);
    // No checksum.
    from_nowhere[40..42].fill(0);
    refused(&from_nowhere, "no source port");
    for (number, reason) in [(66, "deny"), (67, "ban")] {
        let client = Client::new(&hosts, number);
        client.refused(&client.frame(DOMAIN, QUESTION), reason, reason);
    }
    assert_eq!(drops(&hosts, "answered"), 0);
    let mut without_checksum = question;
    without_checksum[40..42].fill(0);
    assert_eq!(client.answers(&without_checksum).len(), 1);
    client.answer(DOMAIN, QUESTION);
}

#[test]
fn source_over_its_limit_is_answered_every_second_time_with_slip() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{DNS}slip = 2\n"));
    let _socket = listen(&hosts, DOMAIN);
    let _listener = on(&hosts.server, || TcpListener::bind(("::", DOMAIN)).unwrap());
    // One of the four that came first.
    let source = IpAddr::from([203, 0, 113, 0]);
    let frame = |message: &[u8]| {
        let mut frame = Client::new(&hosts, 0).frame(DOMAIN, message);
        frame[26..30].copy_from_slice(&match source {
            IpAddr::V4(source) => source.octets(),
            IpAddr::V6(_) => unreachable!("IPv4"),
        });
        let sum =
            limiter_tests::forms::checksum(&[&frame[14..24], &[0, 0], &frame[26..34]].concat());
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[40..42].fill(0);
        frame
    };
    let wire = Raw::open(&hosts.client);
    for _ in 0..9 {
        wire.send(&frame(QUESTION));
    }
    limiter_tests::eventually("all", || {
        limiter_tests::number(&hosts.status()["limits"][0]["passed"]["packets"]) >= 13
    });
    for _ in 0..20 {
        wire.send(&frame(QUESTION));
    }
    let all = || drops(&hosts, "answered") + drops(&hosts, "limit");
    limiter_tests::eventually("refusals", || all() >= 20);
    // Each CPU counts by itself.
    let answered = drops(&hosts, "answered");
    assert!((9..=10).contains(&answered), "{answered}");
    // A SYN over the limit gets none: the kernel would answer it, but the limit stands.
    assert_eq!(proven(&hosts), 0);
}

#[test]
fn query_gets_a_challenge_and_only_its_source_proves_itself_by_it() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{GAME}"));
    let _socket = listen(&hosts, QUERIES);
    let first = Client::new(&hosts, 1);
    let second = Client::new(&hosts, 2);
    let third = Client {
        ipv6: true,
        ..Client::new(&hosts, 3)
    };
    let challenge_of = |client: Client<'_>, query: &[u8]| -> Vec<u8> {
        let answer = client.answer(QUERIES, query);
        assert_eq!((answer.len(), &answer[..5]), (9, &b"\xff\xff\xff\xffA"[..]));
        answer[5..].to_vec()
    };
    let challenge = challenge_of(first, INFORMATION);
    let queries = |challenge: &[u8]| {
        let end = [0xff; 4];
        [
            [INFORMATION, challenge].concat(),
            [INFORMATION, challenge, &end].concat(),
            [&PLAYERS[..5], challenge].concat(),
            [b"\xff\xff\xff\xffV", challenge].concat(),
            [&PLAYERS[..5], challenge, &end].concat(),
        ]
    };
    // Another source gets a challenge of its own for the first one's.
    for query in queries(&challenge) {
        assert_ne!(challenge_of(second, &query), challenge);
    }
    challenge_of(first, PLAYERS);
    challenge_of(third, PLAYERS);
    let refused = |message: &[u8], why: &str| {
        first.refused(&first.frame(QUERIES, message), "new_source", why);
    };
    refused(&PLAYERS[..5], "shorter than the answer");
    refused(&[INFORMATION, b"\0"].concat(), "a byte more");
    refused(&INFORMATION[..24], "a byte less");
    refused(
        b"\xfe\xff\xff\xffU\xff\xff\xff\xff",
        "a part of a split packet",
    );
    refused(b"\xff\xff\xff\xffW\xff\xff\xff\xff", "another query");
    assert_eq!(proven(&hosts), 0);
    let proof = [INFORMATION, &challenge].concat();
    assert_eq!(first.answers(&first.frame(QUERIES, &proof)).len(), 0);
    assert_eq!(proven(&hosts), 1);
    // Known now: its next query meets the server.
    let before = drops(&hosts, "answered");
    assert_eq!(first.answers(&first.frame(QUERIES, INFORMATION)).len(), 0);
    assert_eq!(drops(&hosts, "answered"), before);
    for query in queries(&challenge_of(third, INFORMATION)) {
        let known = proven(&hosts);
        third.answers(&third.frame(QUERIES, &query));
        assert_eq!((proven(&hosts), known.max(2)), (2, 2));
    }
}

#[test]
fn answers_over_udp_share_the_budget() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{DNS}"));
    let _socket = listen(&hosts, DOMAIN);
    let wire = Raw::open(&hosts.client);
    for number in 0..600_u32 {
        wire.send(&Client::new(&hosts, (number % 250) as u8).frame(DOMAIN, QUESTION));
    }
    let all = || drops(&hosts, "answered") + drops(&hosts, "new_source");
    limiter_tests::eventually("all", || all() >= 636);
    assert_eq!(drops(&hosts, "answered"), 400);
}

#[test]
fn log_reports_answers_over_udp_and_proofs() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{GAME}"));
    let _socket = listen(&hosts, QUERIES);
    let mut log = Watcher::log(&hosts, &["--level", "debug"]);
    let client = Client::new(&hosts, 9);
    let answer = client.answer(QUERIES, INFORMATION);
    client.answers(&client.frame(QUERIES, &[INFORMATION, &answer[5..]].concat()));
    for event in ["answered", "proven"] {
        // The client's own multicast reports are refused too.
        let line = std::iter::repeat_with(|| log.event()).find(|line| line["source"] != "::");
        let line = line.unwrap();
        assert_eq!(line["event"], event, "{line}");
        assert_eq!(
            [&line["source"], &line["limit"]],
            [&json!("198.51.100.9"), &json!("one")]
        );
    }
}
