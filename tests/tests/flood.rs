//! The receiver's count, `status` and burst + rate × time agree on floods between real hosts, within two tokens.

use std::{
    net::{IpAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use etherparse::PacketBuilder;
use limiter_tests::{
    hosts::{CLIENT, Hosts, SERVER},
    need_kernel, number,
    packet::{Frame, Tags},
    raw::Raw,
    traffic::Flood,
};

const SILENCE: Duration = Duration::from_millis(200);

/// Calls `send` `count` times, evenly spaced over about `duration`. Returns the actual duration.
fn paced(count: u32, duration: Duration, mut send: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    for i in 0..count {
        let due = duration * i / count;
        thread::sleep(due.saturating_sub(start.elapsed()));
        send(i);
    }
    start.elapsed()
}

/// Panics unless `passed` is burst + rate × time, within one token at the beginning and one at the end.
fn agrees(what: &str, passed: u64, burst: f64, per_second: f64, time: Duration) {
    let allowed = burst + per_second * time.as_secs_f64();
    let difference = passed as f64 - allowed;
    assert!(
        difference <= 1.0,
        "{what}: {passed} passed, more than the {allowed} allowed"
    );
    assert!(
        difference >= -2.0,
        "{what}: {passed} passed, less than the {allowed} allowed"
    );
}

/// Panics unless `status` agrees with the packets sent and received.
fn status_agrees(what: &str, hosts: &Hosts, sent: u64, received: u64) {
    let status = hosts.status();
    assert_eq!(number(&status["seen"]["packets"]), sent, "{what}: {status}");
    assert_eq!(
        number(&status["passed"]["packets"]),
        received,
        "{what}: {status}"
    );
    assert_eq!(
        number(&status["dropped"]["packets"]),
        sent - received,
        "{what}: {status}"
    );
    assert_eq!(
        number(&status["drops"]["limit"]["packets"]),
        sent - received,
        "{what}: {status}"
    );
    assert_eq!(
        number(&status["limits"][0]["passed"]["packets"]),
        received,
        "{what}: {status}"
    );
}

#[test]
fn udp_flood_between_sockets_is_limited() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 50/s --burst 20");
    let server = hosts
        .server
        .namespace
        .run(|| UdpSocket::bind((SERVER, 9_000)))
        .unwrap()
        .unwrap();
    let client = hosts
        .client
        .namespace
        .run(|| UdpSocket::bind((CLIENT, 0)))
        .unwrap()
        .unwrap();
    server.set_read_timeout(Some(SILENCE)).unwrap();

    let time = paced(3_000, Duration::from_secs(2), |_| {
        client.send_to(b"x", (SERVER, 9_000)).unwrap();
    });
    let mut received = 0;
    while server.recv(&mut [0; 16]).is_ok() {
        received += 1;
    }
    agrees("udp", received, 20.0, 50.0, time);
    status_agrees("udp", &hosts, 3_000, received);
}

#[test]
fn flood_of_both_ip_versions_is_limited_with_and_without_vlan_tags() {
    need_kernel!();
    for source in ["192.0.2.2", "2001:db8::2"] {
        for tags in [Tags::None, Tags::One, Tags::Two] {
            let hosts = Hosts::new();
            hosts.run("attach eth0 --rate 40/s --burst 10");
            let (from, to) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
            let source: IpAddr = source.parse().unwrap();
            let frame = Frame {
                tags,
                ..hosts.frame(source)
            }
            .bytes();

            let time = paced(1_000, Duration::from_secs(1), |_| from.send(&frame));
            let received = to.receive(SILENCE).len() as u64;
            let what = format!("{source} {tags:?}");
            agrees(&what, received, 10.0, 40.0, time);
            status_agrees(&what, &hosts, 1_000, received);
        }
    }
}

#[test]
fn ping_flood_is_limited_and_admitted_pings_are_answered() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5 --burst 10");
    let wire = Raw::open(&hosts.client);
    let (IpAddr::V4(source), IpAddr::V4(to)) = (CLIENT, SERVER) else {
        panic!("IPv4")
    };
    let ping = |sequence: u32| {
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2(hosts.client.mac, hosts.server.mac)
            .ipv4(source.octets(), to.octets(), 64)
            .icmpv4_echo_request(7, u16::try_from(sequence).unwrap())
            .write(&mut bytes, &[0; 56])
            .unwrap();
        wire.send(&bytes);
    };
    let time = paced(300, Duration::from_secs(3), ping);
    let replies = wire.receive(SILENCE).len() as u64;
    agrees("ping", replies, 10.0, 5.0, time);
    status_agrees("ping", &hosts, 300, replies);
}

#[test]
fn bit_rate_counts_the_bytes_of_whole_frames() {
    need_kernel!();
    let hosts = Hosts::new();
    // The rate is 100,000 bytes per second.
    hosts.run("attach eth0 --rate 800kbit --burst 20000b");
    let (from, to) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frames = [0, 400, 1_400].map(|payload| {
        Frame {
            payload,
            ..hosts.frame(CLIENT)
        }
        .bytes()
    });

    let time = paced(3_000, Duration::from_secs(1), |i| {
        from.send(&frames[i as usize % 3])
    });
    let received: u64 = to
        .receive(SILENCE)
        .iter()
        .map(|frame| frame.len() as u64)
        .sum();
    let allowed = 20_000.0 + 100_000.0 * time.as_secs_f64();
    let largest = frames[2].len() as f64;
    assert!(
        received as f64 <= allowed + largest,
        "{received} bytes, {allowed} allowed"
    );
    assert!(
        received as f64 >= allowed - 2.0 * largest,
        "{received} bytes, {allowed} allowed"
    );
    assert_eq!(number(&hosts.status()["passed"]["bytes"]), received);
}

#[test]
fn seen_equals_passed_plus_dropped_under_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s --burst 10");
    let frame = hosts.frame(CLIENT).bytes();
    let flood = Flood::start(&hosts, vec![frame], Duration::ZERO);
    let mut last = 0;
    for _ in 0..50 {
        let status = hosts.status();
        for unit in ["packets", "bytes"] {
            let of = |verdict: &str| number(&status[verdict][unit]);
            assert_eq!(of("seen"), of("passed") + of("dropped"), "{status}");
        }
        let drops: u64 = status["drops"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| number(&count["packets"]))
            .sum();
        assert_eq!(number(&status["dropped"]["packets"]), drops, "{status}");
        let seen = number(&status["seen"]["packets"]);
        assert!(seen >= last, "counters only grow");
        last = seen;
    }
    let sent = flood.end();
    thread::sleep(SILENCE);
    assert_eq!(
        number(&hosts.status()["seen"]["packets"]),
        sent,
        "every packet was seen"
    );
    assert!(sent > 10_000, "too few packets were sent: {sent}");
}

/// Each CPU sends from its own socket. At most burst + rate × t passes, and at least 99 % of it.
#[test]
fn flood_of_one_source_from_two_cpus_is_limited_exactly() {
    need_kernel!();
    const FLOOD: Duration = Duration::from_secs(3);
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5k/s --burst 5k");
    let frame = hosts.frame(CLIENT).bytes();
    let wires = [Raw::open(&hosts.client), Raw::open(&hosts.client)];
    let start = Instant::now();
    let flood = |cpu: usize| {
        let mut cpus = nix::sched::CpuSet::new();
        cpus.set(cpu % thread::available_parallelism().unwrap().get())
            .unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).unwrap();
        let mut sent = 0;
        while start.elapsed() < FLOOD {
            wires[cpu].send(&frame);
            sent += 1;
        }
        sent
    };
    let sent: u64 = thread::scope(|scope| {
        let threads = [0, 1].map(|cpu| {
            scope.spawn({
                let flood = &flood;
                move || flood(cpu)
            })
        });
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    let most = 5_000.0 + 5_000.0 * start.elapsed().as_secs_f64();
    let least = 0.99 * (5_000.0 + 5_000.0 * FLOOD.as_secs_f64());
    thread::sleep(SILENCE);
    let status = hosts.status();
    let passed = number(&status["passed"]["packets"]) as f64;
    assert!(sent as f64 > 2.0 * most, "both did flood: {sent}");
    assert_eq!(number(&status["seen"]["packets"]), sent);
    assert!(passed <= most, "{passed} > {most}");
    assert!(passed >= least, "{passed} < {least}");
}
