//! Limits with `max_delay` delay outgoing packets: each leaves at the time that the arithmetic says, and only what would
//! wait too long is dropped.

use std::{
    io::IoSlice,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd as _,
    process::{Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    engine::Kernel,
    eventually,
    hosts::{CLIENT, Hosts, on},
    need, need_kernel, need_program, number,
    packet::Frame,
    raw::{Raw, set_option},
};
use nix::{
    sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg, setsockopt, sockopt},
    time::{ClockId, clock_gettime},
};

const MS: u64 = 1_000_000;
const START: u64 = 1_000_000 * MS;

/// A limit of 100 packets a second with this burst, which delays packets for 200 ms at most.
fn limit(burst: u32) -> String {
    format!(
        "direction = \"out\"\n[[limit]]\nname = \"paced\"\nrate = \"100/s\"\nburst = {burst}\nmax_delay = \"200ms\"\n"
    )
}

/// The times at which packets leave that are sent at these times, in milliseconds after the start; none for dropped ones.
fn leave(settings: &str, sent: &[u64]) -> Vec<Option<u64>> {
    let kernel = Kernel::of(&limiter_tests::settings(settings));
    let frame = Frame::from(CLIENT).bytes();
    let leave = |milliseconds: &u64| {
        let now = START + milliseconds * MS;
        let passes = kernel.passes(&frame, now);
        let leaves_at = kernel.leaves_at.load(Relaxed).max(now);
        passes.then(|| (leaves_at - START) / MS)
    };
    sent.iter().map(leave).collect()
}

#[test]
fn packets_over_the_limit_leave_when_their_tokens_are_there() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    // A leaky bucket spaces packets evenly.
    let wanted: Vec<_> = (0..30).map(|n| (n <= 20).then_some(10 * n)).collect();
    assert_eq!(leave(&limit(1), &[0; 30]), wanted);
    // A burst leaves at once. What it leaves over is refilled meanwhile.
    let times = [0, 0, 0, 0, 0, 5, 35, 100, 100, 100];
    let wanted = [0, 0, 0, 10, 20, 30, 40, 100, 100, 100].map(Some);
    assert_eq!(leave(&limit(3), &times), wanted);
}

#[test]
fn latest_of_several_limits_decides_and_a_refused_packet_charges_none() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let slower = "[[limit]]\nname = \"slower\"\nrate = \"10/s\"\nburst = 1\nkey = \"interface\"\nmax_delay = \"250ms\"\n";
    let text = limit(1) + slower;
    let wanted = [Some(0), Some(100), Some(200), None, None];
    assert_eq!(leave(&text, &[0; 5]), wanted);
    // The faster limit was charged for three packets only.
    let wanted = [Some(300), Some(400)];
    assert_eq!(leave(&text, &[0, 0, 0, 0, 0, 50, 150])[5..], wanted);
    let drops = "[[limit]]\nname = \"drops\"\nrate = \"1/h\"\nburst = 2\nkey = \"interface\"\n";
    assert_eq!(
        leave(&(limit(1) + drops), &[0; 3]),
        [Some(0), Some(10), None]
    );
}

#[test]
fn shadow_delays_nothing_and_limits_in_shadow_do_not_end_delays() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let at_once = [Some(0); 4];
    assert_eq!(
        leave(&format!("shadow = true\n{}", limit(1)), &[0; 4]),
        at_once
    );
    assert_eq!(leave(&(limit(1) + "shadow = true\n"), &[0; 4]), at_once);
    let beside = "[[limit]]\nname = \"beside\"\nrate = \"1/h\"\nburst = 1\nshadow = true\n";
    assert_eq!(
        leave(&(limit(1) + beside), &[0; 4]),
        [0, 10, 20, 30].map(Some)
    );
}

#[test]
fn departure_time_that_a_sender_asks_for_changes_nothing() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let kernel = Kernel::of(&limiter_tests::settings(&limit(3)));
    let untagged = Frame::from(CLIENT).bytes();
    // The kernel's helper does not know packets with VLAN tags in the frame.
    let mut tagged = untagged.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    for (frames, frame) in [(0, &untagged), (1, &tagged)] {
        let asked = [0, 1, START + 2 * MS, START + 3_600_000 * MS, u64::MAX];
        for (number, asked) in (0..).zip(asked) {
            let begin = START + (frames * 5 + number) * 60_000 * MS;
            kernel.asked.store(asked, Relaxed);
            let leave = |milliseconds: u64| {
                let passes = kernel.passes(frame, begin + milliseconds * MS);
                passes.then(|| kernel.leaves_at.load(Relaxed).wrapping_sub(begin) / MS)
            };
            // The first three have tokens, and leave at once too.
            let left: Vec<_> = [0, 0, 1, 1, 1, 100].map(leave).to_vec();
            let wanted = [0, 0, 1, 10, 20, 100].map(Some);
            assert_eq!(left, wanted, "{asked}, {} bytes", frame.len());
        }
    }
}

/// Runs `tc` on the server. Returns true if it succeeds.
fn tc(hosts: &Hosts, line: &str) -> bool {
    let words = line.split(' ');
    on(&hosts.server, || {
        Command::new("tc").args(words).status().unwrap().success()
    })
}

/// Two hosts, of which the server's interface delays packets. None if this kernel has no `fq`.
fn with_fq() -> Option<Hosts> {
    let hosts = Hosts::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), limit(1)).unwrap();
    let attach = format!("attach eth0 --config {}", file.path().display());
    if need::tcx() {
        hosts.limiter(&attach).expect_error(
            1,
            &["'paced'", "max_delay", "tc qdisc replace dev eth0 root fq"],
        );
    }
    if !need::tcx() || !tc(&hosts, "qdisc replace dev eth0 root fq") {
        eprintln!("this kernel has no fq: nothing more to test");
        return None;
    }
    hosts.run(&attach);
    Some(hosts)
}

#[test]
fn receiver_gets_packets_at_their_times() {
    need_kernel!();
    let Some(hosts) = with_fq() else { return };
    let wire = Raw::open(&hosts.client);
    let start = Instant::now();
    on(&hosts.server, || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..30 {
            let _ = socket.send_to(b"twelve bytes", (CLIENT, 9));
        }
    });
    let sent = start.elapsed();
    let mut arrivals = Vec::new();
    while start.elapsed() < sent + Duration::from_millis(600) {
        let arrived = wire.arrived();
        let of_test = arrived
            .iter()
            .filter(|frame| frame.ends_with(b"twelve bytes"));
        arrivals.extend(of_test.map(|_| start.elapsed()));
        thread::sleep(Duration::from_micros(200));
    }
    assert!(arrivals.len() >= 21, "{} arrived", arrivals.len());
    let early = |(n, arrival): &(u32, &Duration)| **arrival < Duration::from_millis(10) * *n;
    assert_eq!((0..).zip(&arrivals).find(early), None, "{arrivals:?}");
    let mut late: Vec<_> = (0..)
        .zip(&arrivals)
        .map(|(n, arrival)| *arrival - Duration::from_millis(10) * n)
        .collect();
    late.sort();
    println!(
        "late by {:?} (median), {:?} (most)",
        late[late.len() / 2],
        late.last()
    );
    let status = hosts.json("status eth0:out --json")["interfaces"][0].clone();
    let delayed = number(&status["delays"]["packets"]);
    assert!(delayed >= 19, "{delayed} delayed");
    let dropped = number(&status["dropped"]["packets"]);
    assert_eq!(
        number(&status["passed"]["packets"]) + dropped,
        number(&status["seen"]["packets"])
    );
}

/// Sends a packet every 10 ms for 1.2 s by a socket that keeps them back in one of two ways, for 1.5 s. Returns the times
/// at which they arrive.
fn arrivals_of_kept_back(hosts: &Hosts, by_time: bool) -> Vec<Duration> {
    const TOGETHER: Duration = Duration::from_millis(1_500);
    let wire = Raw::open(&hosts.client);
    let start = Instant::now();
    let sender = on(&hosts.server, || UdpSocket::bind("0.0.0.0:0").unwrap());
    if by_time {
        let clock = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        setsockopt(&sender, sockopt::TxTime, &clock).unwrap();
    } else {
        pace(&sender, 1);
    }
    let SocketAddr::V4(destination) = SocketAddr::new(CLIENT, 9) else {
        unreachable!("IPv4");
    };
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    let leave_at = (Duration::from(now) + TOGETHER).as_nanos() as u64;
    let (mut arrivals, mut sent, mut is_free) = (Vec::new(), 0, by_time);
    while start.elapsed() < 2 * TOGETHER {
        if sent < 120 && start.elapsed() >= Duration::from_millis(10) * sent {
            let data = [IoSlice::new(b"twelve bytes")];
            let asked = [ControlMessage::TxTime(&leave_at)];
            let asked = if by_time { &asked[..] } else { &[] };
            let flags = MsgFlags::empty();
            let _ = sendmsg(
                sender.as_raw_fd(),
                &data,
                asked,
                flags,
                Some(&SockaddrIn::from(destination)),
            );
            sent += 1;
        }
        if !is_free && start.elapsed() >= TOGETHER {
            pace(&sender, u32::MAX);
            is_free = true;
        }
        let arrived = wire.arrived();
        let of_test = arrived
            .iter()
            .filter(|frame| frame.ends_with(b"twelve bytes"));
        arrivals.extend(of_test.map(|_| start.elapsed()));
        thread::sleep(Duration::from_micros(200));
    }
    arrivals
}

/// Sets `SO_MAX_PACING_RATE`, in bytes per second.
fn pace(socket: &UdpSocket, rate: u32) {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &rate.to_ne_bytes(),
    )
    .unwrap();
}

#[test]
fn packets_that_a_sender_keeps_back_do_not_leave_together() {
    need_kernel!();
    let Some(hosts) = with_fq() else { return };
    for by_time in [true, false] {
        let arrivals = arrivals_of_kept_back(&hosts, by_time);
        let most = |window: f64| {
            let beginning = |from: &Duration| {
                let within = |arrival: &&Duration| {
                    **arrival >= *from && (**arrival - *from).as_secs_f64() <= window
                };
                arrivals.iter().filter(within).count()
            };
            arrivals.iter().map(beginning).max().unwrap_or(0)
        };
        println!(
            "by time {by_time}: {} arrived, at most {} within 10 ms, {} within 100 ms",
            arrivals.len(),
            most(0.01),
            most(0.1)
        );
        assert!(arrivals.len() >= 60, "{arrivals:?}");
        // Burst + rate × time, and 300 ms for which this machine may stand still.
        for window in [0.01, 0.1, 0.5] {
            let wanted = 1.0 + 100.0 * (window + 0.3);
            assert!(most(window) as f64 <= wanted, "{window} s: {arrivals:?}");
        }
    }
}

#[test]
fn fq_drops_what_exceeds_its_flow_limit_after_limiter_has_passed_it() {
    need_kernel!();
    let Some(hosts) = with_fq() else { return };
    assert!(tc(&hosts, "qdisc change dev eth0 root fq flow_limit 5"));
    let wire = Raw::open(&hosts.client);
    on(&hosts.server, || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for _ in 0..30 {
            // The kernel may report a drop as an error.
            let _ = socket.send_to(b"twelve bytes", (CLIENT, 9));
        }
    });
    thread::sleep(Duration::from_millis(600));
    let arrived = wire.arrived();
    let arrived = arrived
        .iter()
        .filter(|frame| frame.ends_with(b"twelve bytes"))
        .count() as u64;
    let status = hosts.json("status eth0:out --json")["interfaces"][0].clone();
    let passed = number(&status["limits"][0]["passed"]["packets"]);
    let mut tc = Command::new("tc");
    tc.args(["-statistics", "-json", "qdisc", "show", "dev", "eth0"]);
    let shown = on(&hosts.server, || tc.output().unwrap().stdout);
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    let beyond = number(&shown[0]["flows_plimit"]);
    println!("limiter passed {passed} of 30, fq dropped {beyond}, {arrived} arrived");
    assert!(beyond > 0, "{shown}");
    assert_eq!(arrived, passed - beyond, "{shown}");
}

/// Sends a stream from the server to the client with iperf3 for five seconds after the burst. Returns its rate in parts
/// of 10 Mbit/s of frames, and the number of retransmissions. `meanwhile` runs during the stream.
fn stream(hosts: &Hosts, meanwhile: impl FnOnce()) -> (f64, u64) {
    let start = |line: &str| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut server = on(&hosts.client, || {
        start(&format!("iperf3 --server --one-off --bind {CLIENT}"))
    });
    // Port 5201, and the state of a socket that listens.
    eventually("iperf3 listens", || {
        let listening = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.id()));
        listening.is_ok_and(|sockets| sockets.contains(":1451 00000000:0000 0A"))
    });
    // A connection that hangs fails this test only.
    let line = format!("timeout -k 10 100 iperf3 --client {CLIENT} --omit 1 --time 5 --json");
    let client = on(&hosts.server, || start(&line));
    thread::sleep(Duration::from_secs(3));
    meanwhile();
    let output = client.wait_with_output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let end = &result["end"];
    let rate = end["sum_received"]["bits_per_second"].as_f64();
    let rate = rate.unwrap_or_else(|| panic!("{result}"));
    // 1,448 bytes of payload in frames of 1,514.
    let part = rate / (10e6 * 1_448.0 / 1_514.0);
    (part, number(&end["sum_sent"]["retransmits"]))
}

#[test]
fn stream_through_a_paced_limit_loses_nothing() {
    need_kernel!();
    let Some(hosts) = with_fq() else { return };
    need_program!("iperf3");
    hosts.run("detach eth0:out");
    hosts.attach_file(
        "interfaces = \"eth0\"\ndirection = \"out\"\n[[limit]]\nname = \"paced\"\nrate = \"10mbit\"\nburst = \"66kb\"\nmax_delay = \"2s\"\n",
    );
    let (paced, again) = stream(&hosts, || {
        let top = hosts.json("top eth0:out --once --json --interval 500ms");
        let [delayed, below] = ["delayed_packets_per_second", "delayed_below_seconds"]
            .map(|field| top[field].as_f64().unwrap_or_else(|| panic!("{top}")));
        println!("{delayed} packets per second were delayed, 99 % for less than {below} s");
        // 10 Mbit/s are 825 packets of 1,514 bytes, which leave merged.
        assert!(delayed > 300.0 && below > 0.0, "{top}");
    });
    let status = hosts.json("status eth0:out --json")["interfaces"][0].clone();
    assert_eq!(number(&status["dropped"]["packets"]), 0, "{status}");
    println!("paced: {paced:.3} of the rate, {again} retransmissions");
    assert!((0.9..1.02).contains(&paced), "{paced}");
}
