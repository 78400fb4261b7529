//! New sources prove their address over UDP while new sources are refused: a question of DNS comes again over TCP, and a
//! server query returns its challenge. Answers have no more bytes than what they answer.

mod answers;
mod clients;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use limiter_tests::{
    eventually,
    hosts::{Hosts, SERVER, SERVER_IPV6, on},
    newcomers::prepare_answers,
    number,
    packet::Ends,
    raw::{Raw, answers, awaited_answers},
};

/// No new source per hour to speak of: 4 at once, and 400 answers.
const FEW: &str =
    "interfaces = \"eth0\"\nsecond_chance = false\nnew_sources = \"1/h\"\nnew_sources_burst = 4\n";
const DNS: &str =
    "[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 10\nproof = [\"dns-tc\", \"syn-cookie\"]\n";
const GAME: &str = "[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 10\nproof = \"a2s\"\n";
/// The port of queries.
const QUERIES: u16 = 27_015;
const DOMAIN: u16 = 53;

/// A question for `www.example.net`, of type A and class IN, with this identification and RD.
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03net\0\0\x01\0\x01";
/// An OPT record with the option for a client's cookie and a server's, of 8 and 16 bytes.
const COOKIE: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\x1c\0\x0a\0\x18clientck0123456789abcdef";
const INFORMATION: &[u8] = b"\xff\xff\xff\xffTSource Engine Query\0";
const PLAYERS: &[u8] = b"\xff\xff\xff\xffU\xff\xff\xff\xff";

/// The question with EDNS.
fn with_edns(record: &[u8]) -> Vec<u8> {
    let mut question = [QUESTION, record].concat();
    question[11] = 1;
    question
}

/// Attaches limiter with these settings on the server, and takes all tokens for new sources.
fn protect(hosts: &Hosts, settings: &str) {
    hosts.attach_file(settings);
    let wire = Raw::open(&hosts.client);
    for number in 0..40 {
        let source = IpAddr::V4(Ipv4Addr::new(203, 0, 113, number));
        wire.send(&hosts.frame(source).bytes());
    }
    eventually("refusals", || drops(hosts, "new_source") >= 30);
}

/// Server and client, without tokens for new sources.
fn hosts(settings: &str) -> Hosts {
    let hosts = Hosts::of_both_families();
    prepare_answers(&hosts);
    protect(&hosts, settings);
    hosts
}

/// A socket of the server, which answers nothing.
fn listen(hosts: &Hosts, port: u16) -> UdpSocket {
    on(&hosts.server, || UdpSocket::bind(("::", port)).unwrap())
}

fn drops(hosts: &Hosts, reason: &str) -> u64 {
    number(&hosts.status()["drops"][reason]["packets"])
}

fn proven(hosts: &Hosts) -> u64 {
    number(&hosts.status()["sources"]["proven"])
}

/// A made-up client.
#[derive(Clone, Copy)]
struct Client<'a> {
    hosts: &'a Hosts,
    number: u8,
    ipv6: bool,
    tags: &'static [u8],
}

impl<'a> Client<'a> {
    fn new(hosts: &'a Hosts, number: u8) -> Self {
        Self {
            hosts,
            number,
            ipv6: false,
            tags: &[],
        }
    }

    /// A frame with this message to this port.
    fn frame(self, port: u16, message: &[u8]) -> Vec<u8> {
        let (from, destination) = if self.ipv6 {
            let from = Ipv6Addr::new(0x2001, 0xdb8, 7, u16::from(self.number), 0, 0, 0, 1);
            (IpAddr::V6(from), SERVER_IPV6)
        } else {
            (Ipv4Addr::new(198, 51, 100, self.number).into(), SERVER)
        };
        let ends = Ends {
            macs: (self.hosts.client.mac, self.hosts.server.mac),
            from: SocketAddr::new(from, 5_000),
            to: SocketAddr::new(destination, port),
        };
        let mut frame = ends.udp(message);
        frame.splice(12..12, self.tags.iter().copied());
        frame
    }

    /// The answers to a frame.
    fn answers(self, frame: &[u8]) -> Vec<Vec<u8>> {
        answers(&self.hosts.client, frame)
    }

    /// The message of the answer to this one, after a check of the headers and of the frame's length.
    fn answer(self, port: u16, message: &[u8]) -> Vec<u8> {
        let question = self.frame(port, message);
        let mut answers = awaited_answers(&self.hosts.client, &question);
        assert_eq!(answers.len(), 1, "{answers:02x?}");
        let mut answer = answers.remove(0);
        // The client's kernel takes the outer tag off (`__netif_receive_skb_core`).
        let outer = self.tags.len().min(4);
        answer.splice(12..12, self.tags[..outer].iter().copied());
        assert!(answer.len() <= question.len());
        assert_eq!(
            (&answer[..6], &answer[6..12]),
            (&question[6..12], &question[..6])
        );
        let tags: Vec<_> = answer.splice(12..12 + self.tags.len(), []).collect();
        assert_eq!(tags, self.tags);
        let packet = SlicedPacket::from_ethernet(&answer).unwrap();
        let Some(TransportSlice::Udp(udp)) = packet.transport else {
            panic!("{answer:02x?}");
        };
        let header = udp.to_header();
        let right = match packet.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                assert_eq!(header.time_to_live, 64);
                assert_eq!(header.destination, [198, 51, 100, self.number]);
                udp.to_header().calc_checksum_ipv4(&header, udp.payload())
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.hop_limit, 64);
                udp.to_header().calc_checksum_ipv6(&header, udp.payload())
            }
            net => panic!("{net:?}"),
        };
        assert_eq!(header.checksum, right.unwrap());
        assert_eq!((header.source_port, header.destination_port), (port, 5_000));
        udp.payload().to_vec()
    }

    /// Asserts that a frame gets no answer and is dropped under this reason.
    fn refused(self, frame: &[u8], reason: &str, why: &str) {
        let before = drops(self.hosts, reason);
        let answers = self.answers(frame);
        assert_eq!(answers, Vec::<Vec<u8>>::new(), "{why}");
        // The client's own multicast reports are refused too.
        assert!(drops(self.hosts, reason) > before, "{why}");
    }
}
