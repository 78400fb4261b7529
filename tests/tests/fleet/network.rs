//! The test network of a fleet: its faults and spreading, and local limits without sharing.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use limiter_tests::{
    fleet::{Bucket, Detour, Fleet, Load, Network, STORE, Sent, between, source},
    hosts::on,
    need, need_kernel,
};

const LIMIT: Bucket = Bucket {
    rate: 20,
    burst: 10,
};

/// Long enough for an attempt that must fail.
const SHORT: Duration = Duration::from_millis(300);
/// Longer than any operation takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn limits() -> String {
    let Bucket { rate, burst } = LIMIT;
    format!(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"all\"\nrate = \"{rate}/s\"\nburst = {burst}\n"
    )
}

/// Three hosts with a limit each; none if this machine lacks nftables.
fn fleet(test: &str) -> Option<Fleet> {
    if !need::program(test, "nft") {
        return None;
    }
    let fleet = Fleet::of(3);
    fleet.attach_all(&limits());
    Some(fleet)
}

/// The number of packets that each host admits when packets go to the hosts in turn, from host 0 on.
fn in_turns(sent: &Sent, hosts: usize) -> Vec<std::ops::RangeInclusive<u64>> {
    (0..hosts)
        .map(|host| LIMIT.admits(&sent.times(|place| place % hosts == host)))
        .collect()
}

/// Without sharing, three hosts admit three times as many packets as one.
#[test]
fn local_limits_alone_admit_three_times_the_rate() {
    need_kernel!();
    let Some(fleet) = fleet("local_limits_alone_admit_three_times_the_rate") else {
        return;
    };
    for host in 0..3 {
        assert_eq!(fleet.status(host)["mode"], "native");
    }
    let load = Load::of(source(7), 300, Duration::from_millis(3_500));
    let sent = fleet.send(&load);
    let passed = fleet.passed();
    assert_eq!(sent.count(), 1_050);
    assert_eq!(fleet.seen(), [350; 3], "one by one, evenly");

    let bounds = in_turns(&sent, 3);
    println!(
        "{passed:?} of {bounds:?} in {} ms",
        sent.longest() / 1_000_000
    );
    for (host, (passed, bounds)) in passed.iter().zip(&bounds).enumerate() {
        assert!(
            bounds.contains(passed),
            "host {host}: {passed} of {bounds:?}"
        );
    }
    assert!(between(&bounds).contains(&fleet.admitted()));
    // Packets that one host would have admitted.
    let one = *LIMIT.admits(&sent.times(|_| true)).end() as f64;
    let times = fleet.admitted() as f64 / one;
    assert!((2.5..=3.0).contains(&times), "{times} times {one}");
}

/// Packets go to the hosts in turn; with weights, several in a row.
#[test]
fn packets_are_spread_one_by_one() {
    need_kernel!();
    let Some(fleet) = fleet("packets_are_spread_one_by_one") else {
        return;
    };
    let come = |packets: u32, to: [u64; 3]| {
        let before = fleet.seen();
        let _ = fleet.send(&Load::at_once(source(7), packets));
        let come: Vec<_> = fleet
            .seen()
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        assert_eq!(come, to, "of {packets}");
    };
    come(1, [1, 0, 0]);
    come(1, [0, 1, 0]);
    come(2, [1, 0, 1]);
    come(200, [66, 67, 67]);
    fleet.spread(&[5, 1, 0]);
    come(5, [5, 0, 0]);
    come(1, [0, 1, 0]);
    come(600, [500, 100, 0]);
    fleet.spread(&[0, 0, 1]);
    come(70, [0, 0, 70]);
}

/// With as many sources as hosts, each source's packets reach every host, and each source sends as many.
#[test]
fn sources_are_spread_whatever_their_number() {
    need_kernel!();
    let Some(fleet) = fleet("sources_are_spread_whatever_their_number") else {
        return;
    };
    let sources = vec![source(1), source(2), source(3)];
    let sent = fleet.send(&Load::of_many(
        sources.clone(),
        3_000,
        Duration::from_millis(300),
    ));
    assert_eq!(fleet.seen(), [300; 3]);
    for (number, source) in sources.iter().enumerate() {
        assert_eq!(sent.times_of(number).len(), 300);
        for host in 0..3 {
            let known = fleet.check(host, *source);
            assert!(
                known["limits"][0]["passed_packets"].as_u64() > Some(0),
                "{host}: {known}"
            );
        }
    }
}

/// A source that only one host sees moves to another host while it sends.
#[test]
fn a_source_comes_to_one_host_and_moves() {
    need_kernel!();
    let Some(fleet) = fleet("a_source_comes_to_one_host_and_moves") else {
        return;
    };
    fleet.pin(source(7), 1);
    let stream = fleet.start(&Load::of(source(7), 200, Duration::from_millis(1_500)));
    stream.wait_for(100);
    assert_eq!(fleet.seen()[2], 0);
    fleet.pin(source(7), 2);
    let sent = stream.finish();
    let seen = fleet.seen();
    assert_eq!(seen[0], 0, "{seen:?}");
    assert!(seen[1] >= 100 && seen[2] > 0, "{seen:?}");
    assert_eq!(seen[1] + seen[2], sent.count());
    // The source moves between two packets: the first ones went to host 1.
    let first = usize::try_from(seen[1]).unwrap();
    let bounds = [
        0..=0,
        LIMIT.admits(&sent.times(|place| place < first)),
        LIMIT.admits(&sent.times(|place| place >= first)),
    ];
    for (host, (passed, bounds)) in fleet.passed().iter().zip(&bounds).enumerate() {
        assert!(
            bounds.contains(passed),
            "host {host}: {passed} of {bounds:?}"
        );
    }
    // Meanwhile another source is spread, and afterwards this source is spread again.
    let _ = fleet.send(&Load::at_once(source(8), 3));
    fleet.unpin(source(7));
    let _ = fleet.send(&Load::at_once(source(7), 3));
    let more: Vec<_> = fleet
        .seen()
        .iter()
        .zip(seen)
        .map(|(now, then)| now - then)
        .collect();
    assert_eq!(more, [2; 3]);
}

/// Links to the store are cut, lose packets, are narrowed and repaired one by one; the hosts' `eth0` is unaffected.
#[test]
fn a_link_to_the_store_is_cut_and_eth0_is_left_alone() {
    need_kernel!();
    let Some(fleet) = fleet("a_link_to_the_store_is_cut_and_eth0_is_left_alone") else {
        return;
    };
    let network = &fleet.network;
    let address = SocketAddr::new(STORE.into(), 6379);
    let listener = network
        .store
        .run(|| TcpListener::bind(address))
        .unwrap()
        .unwrap();
    let connects = |host: usize, patience: Duration| {
        on(fleet.host(host), || {
            TcpStream::connect_timeout(&address, patience)
        })
        .is_ok()
    };
    // From the host's own address to the other end.
    let mut stream = on(fleet.host(1), || TcpStream::connect(address)).unwrap();
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), Network::address(1));
    stream.write_all(b"ping").unwrap();
    let mut heard = [0; 4];
    accepted.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");

    for carrier in [false, true] {
        let what = if carrier {
            network.lose(1);
            "packets are lost"
        } else {
            network.cut(1);
            "it is cut"
        };
        assert!(!connects(1, SHORT), "{what}");
        assert!([0, 2].into_iter().all(|host| connects(host, PATIENCE)));
        assert_eq!(has_carrier(&fleet, "mgmt0"), carrier, "{what}");
        assert!(has_carrier(&fleet, "eth0"));
        let before = fleet.seen();
        let _ = fleet.send(&Load::at_once(source(9), 30));
        let come: Vec<_> = fleet
            .seen()
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        assert_eq!(come, [10; 3], "{what}");
        network.heal(1);
        limiter_tests::eventually("the link is healed", || connects(1, SHORT));
    }
    // A narrow link takes its time: 20 kB at 40 kB/s, less the first packet and the sender's buffer.
    network.narrow(1, 40_000);
    let start = Instant::now();
    let writer = std::thread::spawn(move || stream.write_all(&[0; 20_000]).map(|()| stream));
    accepted.read_exact(&mut [0; 20_000]).unwrap();
    let took = start.elapsed();
    assert!(took > Duration::from_millis(300), "{took:?}");
    assert!(connects(2, PATIENCE));
    network.heal(1);
    drop(writer.join().unwrap().unwrap());
}

/// Data over the detour arrives in order, later by the delay, and connections can be ended.
#[test]
fn a_detour_delays_what_is_sent() {
    need_kernel!();
    let network = Network::new(1);
    let address = |port| SocketAddr::new(STORE.into(), port);
    let listen = || TcpListener::bind(address(6_379));
    let listener = network.store.run(listen).unwrap().unwrap();
    let detour = Detour::start(&network.store, 7_000, 6_379);
    let connect = || TcpStream::connect(address(7_000));
    let mut near = on(&network.hosts[0], connect).unwrap();
    let mut far = listener.accept().unwrap().0;
    let mut there_and_back = |text: &[u8]| {
        let (start, mut heard) = (Instant::now(), vec![0; text.len()]);
        near.write_all(text)?;
        far.read_exact(&mut heard)
            .and_then(|()| far.write_all(&heard))?;
        near.read_exact(&mut heard)?;
        assert_eq!(heard, text);
        std::io::Result::Ok(start.elapsed())
    };
    let many: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
    there_and_back(&many).unwrap();
    const DELAY: Duration = Duration::from_millis(150);
    detour.delay(DELAY);
    for text in [&many[..4], &many] {
        let took = there_and_back(text).unwrap();
        assert!(took >= 2 * DELAY, "{took:?}");
    }
    detour.disconnect();
    assert!(there_and_back(b"gone").is_err());
    assert!(on(&network.hosts[0], connect).is_ok());
}

fn has_carrier(fleet: &Fleet, name: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(["-o", "link", "show", name]);
    let said = on(fleet.host(1), || ip.output()).unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("UP"), "{said}");
    said.contains("LOWER_UP")
}
