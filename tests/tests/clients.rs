//! Real servers and clients of other projects get exactly the configured rate.

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::testbed::Address;
use limiter_tests::{
    eventually,
    hosts::{CLIENT, Hosts, SERVER, on},
    need::tool,
    need_kernel, number,
    packet::{Ends, Segment},
    raw::Raw,
    service::{Protocol, Service, printed, spawn},
};

/// A hundred times the usual duration. Only a failed test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// The client's second address, for connections to the server's second address.
const FRIEND: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
const SERVER_FOR_FRIENDS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// A server and a client of two addresses each.
fn hosts() -> Hosts {
    let hosts = Hosts::with(
        &[Address(SERVER, 24), Address(SERVER_FOR_FRIENDS, 24)],
        &[Address(CLIENT, 24), Address(FRIEND, 24)],
    );
    let (to, from) = (SERVER_FOR_FRIENDS.to_string(), FRIEND.to_string());
    let route = ["ip", "route", "add", &to, "dev", "eth0", "src", &from];
    let _ = printed(spawn(&hosts.client, &route));
    hosts
}

struct Load {
    /// The client's output.
    printed: String,
    /// Packets of the client that the limit admitted.
    passed: u64,
    /// Packets of the client that the limit refused.
    dropped: u64,
}

/// Number of packets that the first limit passed, and that it dropped.
fn figures(hosts: &Hosts) -> (u64, u64) {
    let status = hosts.status();
    let of = |verdict: &str| number(&status["limits"][0][verdict]["packets"]);
    (of("passed"), of("dropped"))
}

/// Runs a client until it ends, and then empties the bucket with `spend`. Panics unless the number of admitted packets
/// is burst + rate × time, within one token at each end.
fn under_limit(hosts: &Hosts, client: &[&str], (rate, burst): (f64, f64), spend: &[u8]) -> Load {
    let begin = Instant::now();
    let child = Reaped(Some(spawn(&hosts.client, client)));
    eventually("the bucket is empty", || figures(hosts).1 > 0);
    let empty = Instant::now();
    let printed = printed(child.take());
    let (passed, dropped) = figures(hosts);

    let spending = Instant::now();
    let wire = Raw::open(&hosts.client);
    (0..=burst as u64).for_each(|_| wire.send(spend));
    eventually("the bucket is empty again", || figures(hosts).1 > dropped);
    let all = figures(hosts).0;
    let most = burst + rate * begin.elapsed().as_secs_f64();
    // If the machine was busy for seconds, the bucket may have been full again and have lost tokens.
    let least = if all - passed < burst as u64 {
        burst + rate * (spending - empty).as_secs_f64() - 2.0
    } else {
        2.0 * burst
    };
    let all = all as f64;
    assert!(all <= most, "{all} passed, {most} allowed: {printed}");
    assert!(all >= least, "{all} passed, {least} allowed: {printed}");
    Load {
        printed,
        passed,
        dropped,
    }
}

/// A child process that is killed when the test fails.
struct Reaped(Option<Child>);

impl Reaped {
    fn take(mut self) -> Child {
        self.0.take().unwrap()
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The number after `before`, in the first line that contains `before` and `after`.
fn figure(printed: &str, before: &str, after: &str) -> u64 {
    let line = printed
        .lines()
        .find(|line| line.contains(before) && line.contains(after));
    let line = line.unwrap_or_else(|| panic!("no '{before}' '{after}' in: {printed}"));
    let rest = line.split_once(before).unwrap().1;
    let word = rest.split_whitespace().next().unwrap();
    word.parse().unwrap_or_else(|_| panic!("no number: {line}"))
}

fn from_client(hosts: &Hosts, port: u16) -> Ends {
    Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from: SocketAddr::new(CLIENT, 40_000),
        to: SocketAddr::new(SERVER, port),
    }
}

/// The client is `dnsperf`.
#[test]
fn name_server_answers_every_query_that_passes() {
    need_kernel!();
    for name in ["dnsmasq", "dnsperf"] {
        if !tool("name_server_answers_every_query_that_passes", name) {
            return;
        }
    }
    let hosts = hosts();
    hosts.attach_file(
        r#"
        interfaces = ["eth0"]
        [lists]
        friends = ["192.0.2.3"]
        [[limit]]
        name = "dns"
        match = { protocol = "udp", destination_port = 53, unless = "friends" }
        rate = "50/s"
        burst = 200
        [[limit]]
        name = "friends"
        match = { protocol = "udp", destination_port = 53, source = "friends" }
        rate = "1M/s"
        "#,
    );
    let line = "dnsmasq --no-daemon --no-resolv --no-hosts --conf-file=/dev/null --pid-file= --user=root \
                --interface=eth0 --bind-interfaces --address=/example.test/192.0.2.53";
    let line: Vec<_> = line.split_whitespace().collect();
    let _server = Service::start(&hosts.server, &line, Protocol::Udp, 53);
    let queries = tempfile::NamedTempFile::new().unwrap();
    fs::write(queries.path(), "www.example.test A\n").unwrap();
    let file = queries.path().to_str().unwrap();
    // 500 queries per second for 1.5 seconds. Friends send no more than the server's buffer can hold.
    let load = |source: IpAddr, queries: u64, rate: u64| {
        format!("dnsperf -s {SERVER} -a {source} -d {file} -n {queries} -Q {rate} -q 5000 -t 2")
    };
    let sent = |printed: &str| figure(printed, "Queries sent:", "");
    let answered = |printed: &str| figure(printed, "Queries completed:", "");

    let line = load(CLIENT, 750, 500);
    let line: Vec<_> = line.split_whitespace().collect();
    let spend = from_client(&hosts, 53).udp(b"x");
    let stranger = under_limit(&hosts, &line, (50.0, 200.0), &spend);
    assert_eq!(sent(&stranger.printed), 750);
    assert_eq!(stranger.passed + stranger.dropped, 750, "all queries");
    assert_eq!(
        answered(&stranger.printed),
        stranger.passed,
        "answers, for the queries that passed"
    );

    let line = load(FRIEND, 200, 200);
    let line: Vec<_> = line.split_whitespace().collect();
    let friend = printed(spawn(&hosts.client, &line));
    assert_eq!((sent(&friend), answered(&friend)), (200, 200), "{friend}");
    let status = hosts.status();
    let of_friends = &status["limits"][1];
    assert_eq!(of_friends["passed"]["packets"], 200, "{status}");
    assert_eq!(of_friends["dropped"]["packets"], 0, "{status}");
}

#[test]
fn open_sessions_are_not_disturbed_by_a_syn_flood() {
    need_kernel!();
    const SESSIONS: usize = 5;
    const FLOOD: usize = 2_000;
    const REFUSED: Duration = Duration::from_millis(300);
    let hosts = hosts();
    hosts.attach_file(
        r#"
        interfaces = ["eth0"]
        [[limit]]
        name = "ssh"
        match = { protocol = "tcp", destination_port = 22, tcp_flags = "syn" }
        rate = "5/h"
        burst = 5
        "#,
    );
    let listener = on(&hosts.server, || TcpListener::bind(("0.0.0.0", 22))).unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(echo));
    let connect = |to: IpAddr, patience: Duration| {
        let to = SocketAddr::new(to, 22);
        on(&hosts.client, || TcpStream::connect_timeout(&to, patience))
    };
    let sessions = || {
        let sessions = (0..SESSIONS).map(|_| connect(SERVER, PATIENCE));
        sessions.collect::<Result<Vec<_>, _>>()
    };
    let mut sessions = sessions().expect("the burst admits these sessions");
    let another = connect(SERVER, REFUSED).expect_err("more sessions than the burst");
    assert_eq!(another.kind(), std::io::ErrorKind::TimedOut);

    let wire = Raw::open(&hosts.client);
    let syn = from_client(&hosts, 22).tcp(Segment::Syn);
    let data: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    for session in &mut sessions {
        session.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut back = vec![0; data.len()];
        let mut to = session.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                data.chunks(1_000).for_each(|chunk| {
                    (0..FLOOD / SESSIONS / 100).for_each(|_| wire.send(&syn));
                    to.write_all(chunk).unwrap();
                })
            });
            session.read_exact(&mut back).expect("a session stalls");
        });
        assert!(back == data, "the echoed data differ");
    }
    connect(SERVER, REFUSED).expect_err("more sessions than the burst");
    connect(SERVER_FOR_FRIENDS, PATIENCE).expect("another source can connect");

    let status = hosts.status();
    let (passed, dropped) = figures(&hosts);
    assert_eq!(passed, SESSIONS as u64 + 1, "{status}");
    assert!(dropped >= FLOOD as u64 + 2, "{status}");
    assert_eq!(
        status["dropped"]["packets"], dropped,
        "nothing else: {status}"
    );
}

/// Echoes its input until the end.
fn echo(stream: TcpStream) {
    thread::spawn(move || {
        let mut to = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut &stream, &mut to);
    });
}
