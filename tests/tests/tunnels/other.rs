//! Bytes in front of packets, GRE without a peer, and merged packets.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::{Kernel, Limit},
    eventually,
    hosts::{Hosts, on},
    need, need_kernel, number,
    packet::udp_of_length,
    raw::Raw,
};

use super::{
    Incoming,
    attachment::Attachment,
    kinds::{GRE_LISTENING, IP6GRE_LISTENING, XFRM},
    link::{self, Link, TUNNEL, inside},
};

/// A test-run shows the program an Ethernet header in front of the network header, as the kernel does with a packet that
/// comes in on xfrm and vti.
#[test]
fn bytes_in_front_of_the_ip_header_are_neither_read_nor_counted() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    // Frames with an Ethernet header of 14 bytes.
    let lengths = [62, 106, 141, 269, 600];
    let bytes = lengths.iter().sum::<usize>() - 14 * lengths.len();
    let sources = ["192.0.2.7", "2001:db8::7"].map(|source| source.parse().unwrap());
    for (limit, taken) in [
        (Limit::new("1/h", "5"), lengths.len()),
        (Limit::new("8bit", "4kb"), bytes),
    ] {
        let mut config = limit.config();
        (config.tc, config.no_ethernet) = (1, 1);
        let kernel = Kernel::load(&limit, &config, false);
        for source in sources {
            let (full, _) = kernel.check(source, 1);
            for length in lengths {
                let reason = kernel.offer(&udp_of_length(source, length), 1);
                assert_eq!(reason, Reason::Admitted, "{source}, {length} bytes");
            }
            let (left, _) = kernel.check(source, 1);
            assert!(
                (full - left - taken as f64).abs() < 1e-6,
                "{limit:?}: {left} of {full}"
            );
        }
    }
}

/// Packets that leave on GRE without a peer begin with the outer IP header, unless each packet names its peer.
#[test]
fn packets_that_leave_on_gre_without_a_peer_of_one_host_are_refused() {
    need_kernel!();
    let hosts = Hosts::of_both_families();
    for (line, is_read) in [
        ("type gre local 192.0.2.1", false),
        ("type gre local 192.0.2.1 remote 224.0.0.99", false),
        ("type gre external", true),
        ("type ip6gre local 2001:db8::1", false),
        ("type ip6gre local 2001:db8::1 remote ff02::99", true),
        ("type ip6gre external", true),
    ] {
        let made = link::run(&hosts.server, &format!("ip link add t0 {line}"));
        if made.is_err() {
            let test = "packets_that_leave_on_gre_without_a_peer_of_one_host_are_refused";
            need::of_kernel(test, "GRE");
            return;
        }
        if need::tcx() {
            // `packets_that_arrive_on_gre_without_a_peer_are_limited` attaches there.
            hosts.run("doctor t0");
            if is_read {
                hosts.run("attach t0:out --rate 5");
                hosts.run("doctor t0:out");
                hosts.run("detach t0:out");
            }
        }
        if !is_read {
            let words = ["'t0", "header of another packet", "`remote` of one host"];
            let attach = hosts.limiter("attach t0:out --rate 5");
            attach.expect_error(1, &words);
            let doctor = hosts.limiter("doctor t0:out");
            doctor.expect(1);
            assert!(doctor.stdout.contains(words[2]), "{line}: {doctor:?}");
        }
        link::run(&hosts.server, "ip link delete t0").unwrap();
    }
}

/// Packets that arrive there have their own header where the kernel says.
#[test]
fn packets_that_arrive_on_gre_without_a_peer_are_limited() {
    const TEST: &str = "packets_that_arrive_on_gre_without_a_peer_are_limited";
    need_kernel!();
    for (kind, path) in [
        (&GRE_LISTENING, Incoming::Fast),
        (&IP6GRE_LISTENING, Incoming::Full),
    ] {
        let Some(link) = Link::new(kind) else {
            need::of_kernel(TEST, kind.name);
            return;
        };
        if !need::tcx() {
            return;
        }
        for version in kind.carries {
            eventually("the tunnel works", || {
                !link.send(*version, true, 1, || ()).is_empty()
            });
        }
        for (limit, file) in path.paths(true) {
            link.hosts
                .attach_file(&format!("interfaces = \"{TUNNEL}\"\n{file}"));
            Attachment {
                link: &link,
                kind,
                place: TUNNEL,
                to_server: true,
                limit,
            }
            .admits_its_burst();
            link.hosts.run(&format!("detach {TUNNEL}"));
        }
    }
}

/// Decrypted packets that the kernel has merged count as the packets they were, in packets and in bytes.
#[test]
fn stream_on_ipsec_counts_as_the_packets_that_were_decrypted() {
    const BYTES: usize = 400_000;
    need_kernel!();
    let Some(link) = Link::new(&XFRM) else {
        let test = "stream_on_ipsec_counts_as_the_packets_that_were_decrypted";
        need::of_kernel(test, XFRM.name);
        return;
    };
    if !need::tcx() {
        return;
    }
    let hosts = &link.hosts;
    hosts.run(&format!("attach {TUNNEL} --rate 1M/s --burst 1M"));
    let before = link.received();
    let wire = Raw::at(&hosts.server.namespace, TUNNEL).unwrap();
    let address = SocketAddr::new(inside(4, true), 7_000);
    let listener = on(&hosts.server, || TcpListener::bind(address)).unwrap();
    let mut stream = on(&hosts.client, || TcpStream::connect(address)).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let sending = thread::spawn(move || {
        stream.write_all(&[0x5a; BYTES]).unwrap();
        stream
    });
    peer.read_exact(&mut vec![0; BYTES]).unwrap();
    let stream = sending.join().unwrap();
    let frames = wire.receive(Duration::from_millis(300));
    assert!(
        frames.iter().any(|frame| frame.len() > 3_000),
        "nothing was merged"
    );
    drop((stream, peer));
    let status = || {
        let seen = &hosts.json(&format!("status {TUNNEL} --json"))["interfaces"][0]["seen"];
        ["packets", "bytes"].map(|unit| number(&seen[unit]))
    };
    let received = || {
        let now = link.received();
        [now[0] - before[0], now[1] - before[1]]
    };
    eventually("the connection is over", || status() == received());
    assert!(received()[1] > BYTES as u64);
}
