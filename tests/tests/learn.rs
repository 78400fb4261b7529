//! `limiter learn` proposes a limit that passes the observed clients and stops a flood, and leaves nothing in the kernel.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use limiter_common::{policy::verdict::Reason, table::Seed};
use limiter_config::{Limit, Mode, Settings, file};
use limiter_kernel::sys::{interface, interface::XdpState};
use limiter_tests::{
    captures::{Captured, pcap, replay},
    command::{Outcome, limiter, prepared},
    eventually,
    files::Folder,
    foreign::{Foreign, PLAIN},
    hosts::{Hosts, SERVER, on},
    need, need_kernel, need_program, number,
    packet::{Ends, Segment},
    random::packets,
    raw::Raw,
    service::{Protocol, Service, nginx_in},
    testbed::Address,
    traffic::udp,
};
use limiter_user::plan::{
    capture::Link,
    learn::{Watched, show, watch},
};

const SECOND: u64 = 1_000_000_000;

/// The time of a frame, and the frame.
type Timed = (u64, Vec<u8>);

fn capture_of(frames: &[Timed]) -> Vec<u8> {
    let packets = frames.iter().cloned();
    let packets = packets.map(|(time, frame)| Captured::whole(time, frame));
    pcap(&packets.collect::<Vec<_>>())
}

fn ends(source: [u8; 4], port: u16) -> Ends {
    Ends {
        macs: ([2; 6], [4; 6]),
        from: SocketAddr::from((source, 40_000)),
        to: SocketAddr::from(([192, 0, 2, 1], port)),
    }
}

fn source_of(frame: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(frame[26], frame[27], frame[28], frame[29])
}

const FROM: u64 = 1_000 * SECOND;
const CLIENTS: u8 = 40;
const FLOODER: [u8; 4] = [203, 0, 113, 66];
const SYN_FLOODER: [u8; 4] = [203, 0, 113, 67];

/// Two minutes of traffic: clients that load pages and resolve names, a client that floods the name server, a client
/// that opens connections as fast as possible, and made-up sources.
fn traffic() -> Vec<Timed> {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut frames: Vec<Timed> = Vec::new();
    for client in 1..=CLIENTS {
        let source = [198, 51, 100, client];
        let (web, dns) = (ends(source, 443), ends(source, 53));
        for second in 0..120 {
            let moment = FROM + second * SECOND + rng.u64(..SECOND);
            frames.push((moment, dns.udp(&[0; 30])));
            if second % 3 == u64::from(client) % 3 {
                frames.push((moment + 1_000_000, web.tcp(Segment::Syn)));
                let data =
                    (0..10).map(|n| (moment + 2_000_000 + n * 500_000, web.tcp(Segment::Data)));
                frames.extend(data);
            }
        }
    }
    let (asked, opened) = (FROM + 20 * SECOND, FROM + 60 * SECOND);
    let flood = ends(FLOODER, 53).udp(&[0; 30]);
    frames.extend((0..20_000).map(|n| (asked + n * 500_000, flood.clone())));
    let opens = ends(SYN_FLOODER, 443).tcp(Segment::Syn);
    frames.extend((0..6_000).map(|n| (opened + n * 5_000_000, opens.clone())));
    for _ in 0..20_000 {
        let source = Ipv4Addr::from(rng.u32(0x0100_0000..0x7f00_0000)).octets();
        let moment = FROM + rng.u64(..120 * SECOND);
        frames.push((moment, ends(source, 53).udp(&[0; 30])));
    }
    frames.sort_by_key(|(time, _)| *time);
    frames
}

/// True unless the frame is of an open TCP connection.
fn is_seen((_, frame): &Timed) -> bool {
    const SYN: u8 = 2;
    frame[23] != 6 || frame[47] & SYN != 0
}

fn read(text: &str) -> file::File {
    file::parse(text, Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"))
}

/// Number of packets of one source that `limit` may pass in `nanoseconds`.
fn allowed(limit: &Limit, nanoseconds: u64) -> u64 {
    let refilled =
        u128::from(limit.rate.amount) * u128::from(nanoseconds) / u128::from(limit.rate.period_ns);
    limit.burst.unwrap().tokens + u64::try_from(refilled).unwrap()
}

fn named<'s>(settings: &'s Settings, name: &str) -> &'s Limit {
    let limit = settings.limits.iter().find(|limit| limit.name == name);
    limit.unwrap_or_else(|| panic!("no limit {name}: {settings:#?}"))
}

/// The limit on the port of [`Clients`].
fn of_clients(settings: &Settings) -> &Limit {
    let names: Vec<_> = settings.limits.iter().map(|limit| &*limit.name).collect();
    assert_eq!(names, ["udp-9", "rest"], "{settings:#?}");
    named(settings, "udp-9")
}

#[test]
fn learned_limits_from_a_capture_pass_clients_and_stop_floods() {
    let folder = Folder::new();
    let frames = traffic();
    let bytes = capture_of(&frames);
    let capture = folder.write("traffic.pcap", &bytes);
    let learn = limiter(&["learn", "--capture", &capture]);
    learn.expect(0);
    let text = &learn.stdout;
    for line in [
        "203.0.113.66 (20,000 packets)",
        "203.0.113.67",
        "Seen in 2m",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    // A second run prints equal output: the seed does not matter if all sources are in the sample.
    assert_eq!(&limiter(&["learn", "--capture", &capture]).stdout, text);

    let mut settings = read(text).settings;
    assert!(settings.shadow, "the proposed file is in shadow mode");
    settings.shadow = false;
    // The limits do not see packets of connections. A replay, without the host's sockets, would.
    let frames: Vec<Timed> = frames.into_iter().filter(is_seen).collect();
    let (_, verdicts) = replay(&capture_of(&frames), &settings).unwrap();
    let mut passed: HashMap<Ipv4Addr, u64> = HashMap::new();
    for ((time, frame), reason) in frames.iter().zip(verdicts) {
        let (source, reason) = (source_of(frame), reason.unwrap());
        *passed.entry(source).or_default() += u64::from(reason.passes());
        assert!(
            frame[26..29] != [198, 51, 100] || reason == Reason::Admitted,
            "{reason:?} of {source}, at {time}\n{text}"
        );
    }
    assert_eq!(settings.limits.len(), 3, "{text}");
    assert!(named(&settings, "rest").matches.other, "{text}");
    let [web, dns] = ["tcp-443", "udp-53"].map(|name| named(&settings, name));
    // A page is one SYN every three seconds, and ten more packets of the connection.
    assert!(
        web.rate.per_second() <= 1.0 && web.burst.unwrap().tokens <= 10,
        "{text}"
    );
    assert!(text.contains("Left out, because the file exempts them: 16,000 packets"));
    for (source, limit, seconds, below) in [(FLOODER, dns, 10, 300), (SYN_FLOODER, web, 30, 300)] {
        let through = passed[&Ipv4Addr::from(source)];
        let most = allowed(limit, seconds * SECOND);
        assert!(through <= most.min(below), "{through} of {most}\n{text}");
    }
}

/// Starts `limiter learn` on the server, with its output in a file.
fn start(hosts: &Hosts, arguments: &[&str]) -> Child {
    let mut command = prepared(&[&["learn", "eth0"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = &hosts.server.namespace;
    server.run(|| command.spawn().unwrap()).unwrap()
}

fn outcome(child: Child) -> Outcome {
    Outcome::of(
        "limiter learn".to_owned(),
        child.wait_with_output().unwrap(),
    )
}

fn xdp(hosts: &Hosts) -> Option<XdpState> {
    let state = || async { interface::by_name("eth0").await.unwrap().xdp };
    hosts.server.namespace.block_on(state).unwrap()
}

/// Waits until `learn` has attached its program.
fn started(hosts: &Hosts) {
    eventually("learn has attached its program", || xdp(hosts).is_some());
}

/// Clients that send one packet each, at least 250 ms after the previous one.
struct Clients {
    wire: Raw,
    frames: Vec<Vec<u8>>,
    flood: Vec<u8>,
}

const POLITE: u8 = 12;
/// Number of packets that the flood sends at once.
const AT_ONCE: u64 = 3_000;

impl Clients {
    fn new(hosts: &Hosts) -> Self {
        let frame = |last| udp(hosts, IpAddr::from([192, 0, 2, last]), 9);
        Self {
            wire: Raw::open(&hosts.client),
            frames: (1..=POLITE).map(|client| frame(100 + client)).collect(),
            flood: frame(66),
        }
    }

    fn round(&self) {
        self.frames.iter().for_each(|frame| self.wire.send(frame));
        (0..AT_ONCE).for_each(|_| self.wire.send(&self.flood));
        thread::sleep(Duration::from_millis(250));
    }
}

#[test]
fn learned_limits_from_live_traffic_pass_clients_and_stop_the_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    let folder = Folder::new();
    let clients = Clients::new(&hosts);
    let mut child = start(&hosts, &["--for", "5s"]);
    started(&hosts);
    let mut rounds = 0;
    while child.try_wait().unwrap().is_none() {
        clients.round();
        rounds += 1;
    }
    let learn = outcome(child);
    learn.expect(0);
    assert!(learn.stderr.contains("in generic mode"), "{learn:#?}");
    assert_eq!(xdp(&hosts), None, "{learn:#?}");
    let text = &learn.stdout;
    let output = folder.write("proposed.toml", text);
    let file = read(text);
    assert_eq!(file.interfaces, ["eth0"]);
    let settings = file.settings;
    assert!(settings.shadow, "{text}");
    assert!(rounds > 4 && text.contains("#   192.0.2.66 ("), "{text}");
    let only = of_clients(&settings);
    assert!(
        (1..=8).contains(&only.rate.amount) && only.burst.unwrap().tokens <= 10,
        "{text}"
    );

    // The clients send again under the proposed limits.
    hosts.run(&format!("attach --config {output}"));
    clients.round();
    let status = hosts.status();
    assert_eq!(
        number(&status["dropped"]["packets"]),
        0,
        "in shadow: {status}"
    );
    assert!(number(&status["would_drop"]["packets"]) > 0, "{status}");
    hosts.run("reset eth0 --all");
    hosts.run("set eth0 --shadow off");
    let seen = number(&hosts.status()["seen"]["packets"]);
    let began = Instant::now();
    (0..12).for_each(|_| clients.round());
    let lasted = u64::try_from(began.elapsed().as_nanos()).unwrap();
    let all = 12 * (AT_ONCE + u64::from(POLITE));
    eventually("limiter has counted all packets", || {
        number(&hosts.status()["seen"]["packets"]) == seen + all
    });
    let limit_of =
        |source: &str| hosts.json(&["check", "eth0", source, "--json"])["limits"][0].clone();
    for client in 1..=POLITE {
        let client = limit_of(&format!("192.0.2.{}", 100 + client));
        let counters = ["passed_packets", "dropped_packets"].map(|name| number(&client[name]));
        assert_eq!(counters, [12, 0], "{client}\n{text}");
    }
    let flooder = limit_of("192.0.2.66");
    let passed = number(&flooder["passed_packets"]);
    assert!(passed <= allowed(only, lasted), "{flooder}\n{text}");
    assert_eq!(passed + number(&flooder["dropped_packets"]), 12 * AT_ONCE);
}

/// In native mode, the kernel takes segmentation offload from the other end.
#[test]
fn learn_leaves_the_other_end_of_a_veth_as_it_is() {
    need_kernel!();
    need_program!("ethtool");
    let hosts = Hosts::new();
    let features = || {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-k", "eth0"]);
        let output = on(&hosts.client, || ethtool.output()).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let before = features();
    assert!(before.contains("tcp-segmentation-offload: on"), "{before}");
    let child = start(&hosts, &["--for", "1s"]);
    started(&hosts);
    assert_eq!(features(), before);
    let learn = outcome(child);
    for words in [
        "in generic mode (native mode would take segmentation offload from the other end of a veth)",
        "packets that offload has merged count once",
    ] {
        assert!(learn.stderr.contains(words), "'{words}': {learn:#?}");
    }
    let child = start(&hosts, &["--for", "1s", "--mode", "native"]);
    started(&hosts);
    assert_ne!(features(), before, "this is why");
    assert!(outcome(child).stderr.contains("in native mode;"));
}

#[test]
fn killed_learn_leaves_no_program() {
    need_kernel!();
    let hosts = Hosts::new();
    let mut child = start(&hosts, &["--for", "1h"]);
    started(&hosts);
    // Other commands report the program of the running `learn`, and change nothing.
    let attach = hosts.limiter(&["attach", "eth0", "--rate", "5"]);
    let words = ["another XDP program ('learn", "is attached to 'eth0'"];
    attach.expect_error(1, &words);
    let second = hosts.limiter(&["learn", "eth0", "--for", "1m"]);
    second.expect_error(1, &words);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("learn has detached its program", || xdp(&hosts).is_none());
    hosts.run("attach eth0 --rate 5");
}

#[test]
fn interrupted_learn_proposes_limits() {
    need_kernel!();
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    let hosts = Hosts::new();
    let clients = Clients::new(&hosts);
    let child = start(&hosts, &["--for", "1h"]);
    started(&hosts);
    (0..8).for_each(|_| clients.round());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    let learn = outcome(child);
    learn.expect(0);
    assert_eq!(xdp(&hosts), None, "{learn:#?}");
    of_clients(&read(&learn.stdout).settings);
}

#[test]
fn learn_refuses_an_interface_with_an_xdp_program() {
    need_kernel!();
    let hosts = Hosts::new();
    let foreign = Foreign::load(PLAIN);
    foreign.attach(&hosts, "xdpdrv");
    let learn = ["learn", "eth0", "--for", "2s"];
    hosts
        .limiter(&learn)
        .expect_error(1, &["another XDP program", "eth0", "--capture"]);
    assert_eq!(xdp(&hosts).map(|xdp| xdp.program_id), Some(foreign.id));

    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let before = xdp(&hosts);
    hosts
        .limiter(&learn)
        .expect_error(1, &["('limiter", "detach eth0", "--capture"]);
    assert_eq!(xdp(&hosts), before);
}

#[test]
fn too_little_traffic_and_wrong_command_lines_are_refused() {
    let folder = Folder::new();
    let is_of_few = |(_, frame): &Timed| frame[26] == 198 && frame[29] < 4;
    let few: Vec<Timed> = traffic().into_iter().filter(is_of_few).collect();
    let learn = |arguments: &[&str]| limiter(&[&["learn"], arguments].concat());
    for (name, frames, words) in [
        ("few.pcap", &few[..], &["only 3 sources", "at least 5"][..]),
        ("empty.pcap", &[], &["lasts 0 s"]),
        ("short.pcap", &few[..20], &["nothing is proposed"]),
    ] {
        let capture = folder.write(name, capture_of(frames));
        learn(&["--capture", &capture]).expect_error(1, words);
    }
    learn(&["--capture", &folder.path("none.pcap")]).expect_error(1, &["none.pcap"]);
    for wrong in [
        &["eth0"][..],
        &[],
        &["--for", "10s"],
        &["eth0", "--for", "0s"],
        &["eth0", "--for", "10s", "--capture", "x"],
    ] {
        learn(wrong).expect_error(2, &[]);
    }
}

/// Clients of nginx and of a name server: pages of a megabyte, and questions. The proposal is for connections and questions,
/// and then loses no packet of them; a flood of either kind is held.
#[test]
fn learned_limits_are_for_new_connections_not_for_transfers() {
    need_kernel!();
    if !need::program(
        "learned_limits_are_for_new_connections_not_for_transfers",
        "nginx",
    ) {
        return;
    }
    const CLIENTS: u8 = 8;
    let addresses = (0..=CLIENTS).map(|last| IpAddr::from([192, 0, 2, 100 + last]));
    let addresses: Vec<_> = addresses.collect();
    let own: Vec<_> = addresses
        .iter()
        .map(|address| Address(*address, 24))
        .collect();
    let hosts = Hosts::with(&[Address(SERVER, 24)], &own);
    let folder = Folder::new();
    folder.write("page", vec![b'x'; 4 << 20]);
    let path = folder.path("");
    let configuration = format!(
        "{} server {{ listen 80; keepalive_timeout 0; root {path}; }} }}",
        nginx_in(&path)
    );
    let file = folder.write("nginx.conf", configuration);
    let line = ["nginx", "-c", &file, "-e", "/dev/null"];
    let _nginx = Service::start(&hosts.server, &line, Protocol::Tcp, 80);
    let _resolver = on(&hosts.server, || UdpSocket::bind((SERVER, 53)).unwrap());
    let asking: Vec<_> = on(&hosts.client, || {
        let sockets = addresses.iter().map(|address| {
            let socket = UdpSocket::bind((*address, 0)).unwrap();
            socket.connect((SERVER, 53)).unwrap();
            socket
        });
        sockets.collect()
    });
    let round = || {
        for socket in &asking {
            socket.send(b"question").unwrap();
        }
        for address in &addresses {
            let mut page = Command::new("curl");
            page.args(["-sfo", "/dev/null", "--interface", &address.to_string()]);
            page.arg("http://192.0.2.1/page");
            assert!(on(&hosts.client, || page.status()).unwrap().success());
        }
        thread::sleep(Duration::from_millis(300));
    };
    let mut child = start(&hosts, &["--for", "6s"]);
    started(&hosts);
    while child.try_wait().unwrap().is_none() {
        round();
    }
    let learn = outcome(child);
    learn.expect(0);
    let text = &learn.stdout;
    let mut settings = read(text).settings;
    let [web, dns] = ["tcp-80", "udp-53"].map(|name| named(&settings, name));
    // A connection and a question of each client in a round of at least 0.3 s; a page takes some hundred packets.
    for limit in [web, dns] {
        assert!(limit.rate.per_second() <= 10.0, "{text}");
        assert!(limit.burst.unwrap().tokens <= 15, "{text}");
    }
    let new_sources = settings.new_sources.unwrap();
    assert_eq!(
        (new_sources.rate.to_string().as_str(), new_sources.burst),
        ("100/s", Some(1_000)),
        "{text}"
    );

    settings.shadow = false;
    let proposed = file::show(&["eth0".to_owned()], &settings);
    hosts.attach_file(&proposed);
    (0..3).for_each(|_| round());
    let status = hosts.status();
    assert_eq!(number(&status["dropped"]["packets"]), 0, "{status}\n{text}");
    assert!(
        number(&status["passes"]["established"]["packets"]) > 1_000,
        "{status}"
    );
    let flood = udp(&hosts, IpAddr::from([192, 0, 2, 66]), 9);
    let wire = Raw::open(&hosts.client);
    (0..2_000).for_each(|_| wire.send(&flood));
    eventually("the rest is held", || {
        number(&hosts.status()["dropped"]["packets"]) > 1_000
    });
}

/// Number of packets by source.
fn packets_of(watched: &Watched) -> BTreeMap<String, u64> {
    let sources = watched.sampler.sources.iter();
    let packets = sources.map(|(source, known)| (show::source_text(source), known.packets()));
    packets.collect()
}

/// Some frames are damaged.
#[test]
fn learn_program_and_capture_agree_on_random_frames() {
    need_kernel!();
    let mut rng = fastrand::Rng::with_seed(0x1ea2);
    // These settings name the addresses and ports of the frames.
    let settings = read(
        "[lists]\nown = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n[[limit]]\nname = \"some\"\nrate = \"5\"\n\
         match = { destination_port = [22, 53, \"443-450\"], source_port = 40000, source = \"own\" }\n",
    )
    .settings;
    let frames = (0..20_000).map(|_| packets::frame(&mut rng, &settings));
    let frames: Vec<_> = frames.collect();
    let hosts = Hosts::new();
    let wire = Raw::open(&hosts.client);
    let watch = || async {
        let mut watch = watch::start("eth0", Mode::Native).await.unwrap();
        for frames in frames.chunks(200) {
            frames.iter().for_each(|frame| wire.send(frame));
            watch.pump().unwrap();
        }
        Watched::from(watch.finish().unwrap())
    };
    let ours = hosts.server.namespace.block_on(watch).unwrap();
    let mut other = Watched::new(Seed::KNOWN);
    for (frame, time) in frames.iter().zip(1..) {
        other.see(time, &Link::Ethernet.frame(frame, frame.len() as u64));
    }
    assert_eq!(ours.totals, other.totals);
    assert_eq!(ours.sampler.once(), other.sampler.once());
    assert_eq!(
        ours.sampler.once_by_service(),
        other.sampler.once_by_service()
    );
    assert_eq!(ours.in_use, other.in_use);
    assert!(ours.in_use.len() > 3 && ours.totals.control.packets > 100);
    assert!(ours.totals.malformed.packets > 100);
    let seen = packets_of(&ours);
    assert_eq!(seen, packets_of(&other));
    assert!(seen.len() > 100, "{}", seen.len());
}

/// The flood is too fast for events, and is only counted.
#[test]
fn learn_counts_a_flood_exactly() {
    need_kernel!();
    let hosts = Hosts::new();
    let clients = Clients::new(&hosts);
    let watch = || async {
        let mut watch = watch::start("eth0", Mode::Native).await.unwrap();
        for _ in 0..6 {
            clients.round();
            watch.pump().unwrap();
        }
        Watched::from(watch.finish().unwrap())
    };
    let watched = hosts.server.namespace.block_on(watch).unwrap();
    let all = 6 * (AT_ONCE + u64::from(POLITE));
    assert_eq!(
        (watched.totals.seen.packets, watched.totals.lost.packets),
        (all, 0)
    );
    let packets = packets_of(&watched);
    assert_eq!(packets["192.0.2.66"], 6 * AT_ONCE);
    assert_eq!(packets["192.0.2.101"], 6);
}
