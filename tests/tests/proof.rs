//! A new client gets in at its first SYN while new sources are refused, because the program answers it with a SYN cookie
//! and lets in the source that returns the cookie. Made-up sources get an answer of the size of their SYN, and no more.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
use limiter_tests::{
    command::{Outcome, prepared},
    eventually,
    files::Folder,
    hosts::{Hosts, SERVER, SERVER_IPV6, on},
    need_kernel,
    newcomers::{prepare_answers, set_cookies},
    number,
    packet::correct,
    raw::{Raw, answers, awaited_answers},
    testbed::Host,
    watcher::Watcher,
};
use serde_json::json;

/// No new source per hour to speak of: 4 at once, and 400 answers.
const FEW: &str =
    "interfaces = \"eth0\"\nsecond_chance = false\nnew_sources = \"1/h\"\nnew_sources_burst = 4\n";
const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 10\nproof = \"syn-cookie\"\n";
/// Both limits need a new bucket.
const TWO: &str =
    "[[limit]]\nname = \"wide\"\nkey = \"/24,/48\"\nrate = \"1k/s\"\nproof = \"syn-cookie\"\n";

const PORT: u16 = 443;
const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]];

/// Server and client, without tokens for new sources. The server listens, and greets each client.
fn hosts(settings: &str) -> Hosts {
    let hosts = Hosts::of_both_families();
    prepare_answers(&hosts);
    let listener = on(&hosts.server, || TcpListener::bind(("::", PORT)).unwrap());
    // It ends with the process.
    thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let _ = client.write_all(b"hello");
        }
    });
    hosts.attach_file(settings);
    let wire = Raw::open(&hosts.client);
    for number in 0..40 {
        let source = IpAddr::V4(Ipv4Addr::new(203, 0, 113, number));
        wire.send(&hosts.frame(source).bytes());
    }
    eventually("refusals", || drops(&hosts, "new_source") >= 30);
    hosts
}

fn drops(hosts: &Hosts, reason: &str) -> u64 {
    number(&hosts.status()["drops"][reason]["packets"])
}

fn proven(hosts: &Hosts) -> u64 {
    number(&hosts.status()["sources"]["proven"])
}

/// The time until the client is connected, if the server greets it.
fn connect(client: &Host, server: IpAddr) -> Option<Duration> {
    on(client, || {
        let begin = Instant::now();
        let patience = Duration::from_secs(2);
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::new(server, PORT), patience).ok()?;
        let connected = begin.elapsed();
        stream.set_read_timeout(Some(patience)).unwrap();
        stream.read_exact(&mut [0; 5]).ok()?;
        Some(connected)
    })
}

#[test]
fn client_connects_at_its_first_syn_while_new_sources_are_refused() {
    need_kernel!();
    for limits in [
        ONE.to_owned(),
        format!("{ONE}{TWO}"),
        format!("exempt = [\"established\"]\n{ONE}"),
    ] {
        for server in [SERVER, SERVER_IPV6] {
            let hosts = hosts(&format!("{FEW}{limits}"));
            let time = connect(&hosts.client, server);
            let time = time.unwrap_or_else(|| panic!("{server}, {limits}"));
            assert!(
                time < Duration::from_millis(500),
                "{time:?}: {server}, {limits}"
            );
            assert_eq!(
                (drops(&hosts, "answered"), proven(&hosts)),
                (1, 1),
                "{server}, {limits}"
            );
            let status = hosts.status();
            let [seen, passed, dropped] =
                ["seen", "passed", "dropped"].map(|key| number(&status[key]["packets"]));
            assert_eq!(seen, passed + dropped);
            let shown = hosts.run("status eth0");
            assert!(shown.contains("1 asked for a proof"), "{shown}");
            assert!(
                shown.contains("1 source let in by an open connection or a proof"),
                "{shown}"
            );
            // A change of the rate keeps source and proof.
            hosts.run("set eth0 --limit one --burst 12");
            assert!(
                connect(&hosts.client, server).is_some(),
                "{server}, {limits}"
            );
            assert_eq!(proven(&hosts), 1);
        }
    }
}

#[test]
fn log_reports_answers_and_proofs() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{ONE}{TWO}"));
    let mut log = Watcher::log(&hosts, &["--level", "debug"]);
    assert!(connect(&hosts.client, SERVER).is_some());
    for event in ["answered", "proven"] {
        let line = log.event();
        assert_eq!(line["event"], event, "{line}");
        let told = [&line["source"], &line["level"], &line["limit"]];
        assert_eq!(told, [&json!("192.0.2.2"), &json!("debug"), &json!("one")]);
    }
    assert_eq!(log.end().sums(), (2, 0));
}

/// A made-up client.
#[derive(Clone, Copy)]
struct Client<'a> {
    hosts: &'a Hosts,
    number: u8,
    ipv6: bool,
    tags: &'static [u8],
}

#[derive(Clone, Copy, PartialEq)]
enum Options {
    None,
    Mss,
    All,
}

impl Client<'_> {
    /// A frame of TCP to this port.
    fn frame(self, port: u16, [sequence, ack]: [u32; 2], options: Options, data: &[u8]) -> Vec<u8> {
        let ether = PacketBuilder::ethernet2(self.hosts.client.mac, self.hosts.server.mac);
        let ip = match (self.ipv6, SERVER, SERVER_IPV6) {
            (false, IpAddr::V4(destination), _) => {
                ether.ipv4([198, 51, 100, self.number], destination.octets(), 20)
            }
            (_, _, IpAddr::V6(destination)) => {
                let from = Ipv6Addr::new(0x2001, 0xdb8, 7, u16::from(self.number), 0, 0, 0, 1);
                ether.ipv6(from.octets(), destination.octets(), 20)
            }
            _ => unreachable!(),
        };
        let mut tcp = ip.tcp(5_000, port, sequence, 1_000);
        tcp = if ack == 0 { tcp.syn() } else { tcp.ack(ack) };
        let mss = TcpOptionElement::MaximumSegmentSize(1_300);
        let all = [
            mss.clone(),
            TcpOptionElement::SelectiveAcknowledgementPermitted,
            TcpOptionElement::Timestamp(1, 0),
            TcpOptionElement::WindowScale(7),
        ];
        let elements = match options {
            Options::None => &[][..],
            Options::Mss => &[mss],
            Options::All => &all,
        };
        let mut frame = Vec::new();
        let tcp = tcp.options(elements).unwrap();
        tcp.write(&mut frame, data).unwrap();
        frame.splice(12..12, self.tags.iter().copied());
        frame
    }

    /// Sequence number of the answer to a SYN, after a check of all its fields.
    fn checked_answer(self, options: Options) -> u32 {
        const SEQUENCE: u32 = 0xffff_ffff;
        let syn = self.frame(PORT, [SEQUENCE, 0], options, &[]);
        let answers = awaited_answers(&self.hosts.client, &syn);
        assert_eq!(answers.len(), 1, "{answers:02x?}");
        let mut answer = answers[0].clone();
        // The client's kernel takes the outer tag off (`__netif_receive_skb_core`).
        let outer = self.tags.len().min(4);
        answer.splice(12..12, self.tags[..outer].iter().copied());
        assert_eq!(answer.len(), syn.len());
        assert_eq!((&answer[..6], &answer[6..12]), (&syn[6..12], &syn[..6]));
        let tags: Vec<_> = answer.splice(12..12 + self.tags.len(), []).collect();
        assert_eq!(tags, self.tags);
        let packet = SlicedPacket::from_ethernet(&answer).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else {
            panic!("{answer:02x?}");
        };
        let right = match packet.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                assert_eq!(header.time_to_live, 64);
                assert_eq!(header.destination, [198, 51, 100, self.number]);
                tcp.calc_checksum_ipv4(header.source, header.destination)
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                assert_eq!(header.hop_limit(), 64);
                tcp.calc_checksum_ipv6(header.source(), header.destination())
            }
            net => panic!("{net:?}"),
        };
        assert_eq!(tcp.checksum(), right.unwrap());
        assert_eq!((tcp.source_port(), tcp.destination_port()), (PORT, 5_000));
        assert_eq!(tcp.acknowledgment_number(), SEQUENCE.wrapping_add(1));
        assert!(tcp.syn() && tcp.ack() && !tcp.rst() && !tcp.fin());
        assert!(tcp.payload().is_empty() && tcp.window_size() > 10_000);
        let found: Vec<_> = tcp.options_iterator().map(Result::unwrap).collect();
        match (options, &found[..]) {
            (Options::None, []) => {}
            (_, [TcpOptionElement::MaximumSegmentSize(mss)]) => {
                assert!((1_000..=1_300).contains(mss), "{mss}");
            }
            other => panic!("{:?}", other.1),
        }
        tcp.sequence_number()
    }

    /// Whether the program drops a frame under this reason.
    fn is_dropped(self, frame: &[u8], reason: &str) -> bool {
        let before = drops(self.hosts, reason);
        let answers = answers(&self.hosts.client, frame);
        assert_eq!(answers, Vec::<Vec<u8>>::new());
        // The client's own multicast reports are refused too.
        drops(self.hosts, reason) > before
    }
}

#[test]
fn answer_has_the_size_of_its_syn_and_right_checksums_and_only_its_cookie_proves() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{ONE}"));
    let options = [Options::None, Options::Mss, Options::All];
    let mut number = 0;
    // All options meet all tags; each family meets all of both. Tokens prove both families.
    for (ipv6, turn) in [(false, 0), (true, 2), (false, 1)] {
        for (index, tags) in TAGS.into_iter().enumerate() {
            number += 1;
            let client = Client {
                hosts: &hosts,
                number,
                ipv6,
                tags,
            };
            let options = options[(index + turn) % 3];
            let cookie = client.checked_answer(options);
            let ack = |cookie: u32| client.frame(PORT, [0, cookie], Options::None, b"hi");
            let made_up = ack(cookie ^ 0x80_0000);
            assert!(client.is_dropped(&made_up, "new_source"), "{number}");
            let before = proven(&hosts);
            answers(&client.hosts.client, &ack(cookie.wrapping_add(1)));
            // Four tokens, as for new sources.
            assert_eq!(proven(&hosts), (before + 1).min(4), "{number}");
        }
    }
    assert_eq!(
        (drops(&hosts, "answered"), proven(&hosts)),
        (number.into(), 4)
    );
}

#[test]
fn proven_source_has_only_its_bucket() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{ONE}"));
    let client = Client {
        hosts: &hosts,
        number: 1,
        ipv6: false,
        tags: &[],
    };
    let cookie = client.checked_answer(Options::All);
    let ack = client.frame(PORT, [0, cookie.wrapping_add(1)], Options::None, &[]);
    // The limit's own figure: the hosts also send packets that no limit counts, such as ARP.
    let passed = || number(&hosts.status()["limits"][0]["passed"]["packets"]);
    let before = passed();
    let wire = Raw::open(&hosts.client);
    for _ in 0..40 {
        wire.send(&ack);
    }
    eventually("drops", || drops(&hosts, "limit") == 30);
    assert_eq!((passed() - before, proven(&hosts)), (10, 1));
}

#[test]
fn only_a_listener_of_the_host_answers() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{ONE}"));
    let client = Client {
        hosts: &hosts,
        number: 1,
        ipv6: false,
        tags: &[],
    };
    let syn = client.frame(PORT, [1, 0], Options::Mss, &[]);
    let refused =
        |frame: &[u8], why: &str| assert!(client.is_dropped(frame, "new_source"), "{why}");
    refused(
        &client.frame(PORT + 1, [1, 0], Options::Mss, &[]),
        "no listener",
    );
    refused(&client.frame(PORT, [1, 0], Options::Mss, b"data"), "data");
    let changed = |position: usize, byte: u8| {
        let mut frame = syn.clone();
        frame[position] = byte;
        correct(&mut frame);
        frame
    };
    refused(&changed(5, syn[5] ^ 1), "another hardware address");
    refused(&changed(20, 0x20), "a fragment");
    refused(&changed(47, 0x06), "SYN and RST");
    refused(&changed(47, 0x12), "SYN and ACK");
    // 198.51.100.9 is another host's. With forwarding, it is reached through this one.
    on(&hosts.server, || {
        std::fs::write("/proc/sys/net/ipv4/conf/all/forwarding", "1").unwrap();
    });
    let route = "route add 198.51.100.0/24 via 192.0.2.2 dev eth0\n";
    hosts.server.namespace.ip(route).unwrap();
    let mut forwarded = syn.clone();
    forwarded[30..34].copy_from_slice(&[198, 51, 100, 9]);
    correct(&mut forwarded);
    refused(&forwarded, "a packet to forward");
    assert_eq!(drops(&hosts, "answered"), 0);
    assert_eq!(awaited_answers(&client.hosts.client, &syn).len(), 1);
    set_cookies(&hosts, 1);
    refused(&syn, "the kernel makes no cookie");
    let diagnosis = hosts.limiter("doctor eth0").stdout;
    assert!(diagnosis.contains("tcp_syncookies=2"), "{diagnosis}");
}

/// The unit `limiter@` sees only processes in /proc, not the setting.
#[test]
fn attach_warns_of_missing_cookies_only_if_it_sees_the_setting() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", ONE);
    let attach = format!(
        "exec {} attach eth0 --config {file}",
        prepared("").get_program().to_str().unwrap()
    );
    let hidden = format!("mount -t proc -o subset=pid proc /proc && {attach}");
    for (cookies, script, warns) in [(1, &attach, true), (2, &attach, false), (2, &hidden, false)] {
        set_cookies(&hosts, cookies);
        let run = || {
            let mut shell = Command::new("unshare");
            shell
                .args(["--mount", "sh", "-c", script])
                .output()
                .unwrap()
        };
        let outcome = Outcome::of(script.clone(), on(&hosts.server, run));
        outcome.expect(0);
        assert_eq!(
            outcome.stderr.contains("tcp_syncookies=2"),
            warns,
            "{outcome:#?}"
        );
        hosts.run("detach eth0");
    }
}

/// 400 answers at once: a hundred times the burst of new sources.
#[test]
fn answers_have_an_exact_budget() {
    need_kernel!();
    let hosts = hosts(&format!("{FEW}{ONE}"));
    let wire = Raw::open(&hosts.client);
    for number in 0..600 {
        let client = Client {
            hosts: &hosts,
            number: (number % 250) as u8,
            ipv6: false,
            tags: &[],
        };
        wire.send(&client.frame(PORT, [number, 0], Options::Mss, &[]));
    }
    let all = || drops(&hosts, "answered") + drops(&hosts, "new_source");
    eventually("all", || all() >= 636);
    assert_eq!(drops(&hosts, "answered"), 400);
    hosts.run("detach eth0");
    assert!(connect(&hosts.client, SERVER).is_some(), "detached");
}
