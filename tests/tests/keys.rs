//! A limit has one bucket per source, per prefix, or for the whole interface, also in shadow mode and for jumbo frames.

use std::{thread, time::Duration};

use limiter_tests::{
    command::ip,
    hosts::{CLIENT, Hosts},
    need_kernel, number,
    packet::Frame,
    raw::Raw,
};

const SILENCE: Duration = Duration::from_millis(200);

/// Addresses of one IPv6 /64 share a bucket.
#[test]
fn each_source_has_its_own_bucket() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    let wire = Raw::open(&hosts.client);
    let send = |source: String| {
        wire.send(&hosts.frame(source.parse().unwrap()).bytes());
    };
    for _ in 0..5 {
        (0..50).for_each(|i| send(format!("198.51.100.{i}")));
        (0..50).for_each(|i| send(format!("2001:db8:0:1::{i:x}")));
        send("2001:db8:0:2::1".to_owned());
    }
    thread::sleep(SILENCE);
    let status = hosts.status();
    assert_eq!(
        number(&status["passed"]["packets"]),
        50 * 3 + 3 + 3,
        "{status}"
    );
    assert_eq!(number(&status["sources"]["tracked"]), 52, "{status}");
    let check = hosts.json("check eth0 2001:db8:0:1:ffff:: --json");
    assert_eq!(check["source"], "2001:db8:0:1::/64");
    assert_eq!(number(&check["limits"][0]["dropped_packets"]), 247);
}

/// All neighbours and the router are in fe80::/64. A chatty neighbour empties only its own bucket.
#[test]
fn each_link_local_source_has_its_own_bucket() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    let wire = Raw::open(&hosts.client);
    let (chatty, router) = ("fe80::bad", "fe80::1");
    for source in [chatty; 50].into_iter().chain([router; 3]) {
        wire.send(&hosts.frame(source.parse().unwrap()).bytes());
    }
    thread::sleep(SILENCE);
    let status = hosts.status();
    assert_eq!(number(&status["passed"]["packets"]), 3 + 3, "{status}");
    let dropped = |source| {
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        assert_eq!(check["source"], source);
        number(&check["limits"][0]["dropped_packets"])
    };
    assert_eq!((dropped(chatty), dropped(router)), (47, 0));
    hosts.limiter(&["reset", "eth0", chatty]).expect(0);
    assert_eq!(dropped(chatty), 0);
}

/// Packets over the limit are counted.
#[test]
fn shadow_drops_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3 --shadow");
    let (from, to) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frame = hosts.frame(CLIENT).bytes();
    (0..10).for_each(|_| from.send(&frame));
    assert_eq!(to.receive(SILENCE).len(), 10);
    let status = hosts.status();
    assert_eq!(number(&status["passed"]["packets"]), 10);
    assert_eq!(number(&status["would_drop"]["packets"]), 7);
    assert_eq!(number(&status["limits"][0]["would_drop"]["packets"]), 7);
    assert_eq!(number(&status["dropped"]["packets"]), 0);

    hosts.run("set eth0 --shadow off");
    (0..10).for_each(|_| from.send(&frame));
    assert_eq!(
        to.receive(SILENCE).len(),
        0,
        "the bucket was charged in shadow too"
    );
    assert_eq!(number(&hosts.status()["dropped"]["packets"]), 10);
}

#[test]
fn key_interface_makes_one_bucket_for_all_sources() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 7 --key interface");
    let wire = Raw::open(&hosts.client);
    for i in 0..20 {
        let source = if i % 2 == 0 {
            format!("198.51.100.{i}")
        } else {
            format!("2001:db8:{i}::1")
        };
        wire.send(&hosts.frame(source.parse().unwrap()).bytes());
    }
    thread::sleep(SILENCE);
    let status = hosts.status();
    assert_eq!(number(&status["passed"]["packets"]), 7, "{status}");
    assert_eq!(number(&status["sources"]["tracked"]), 1, "{status}");
}

/// The kernel must support multi-buffer XDP.
#[test]
fn jumbo_frames_count_with_their_whole_length() {
    need_kernel!();
    if !limiter_user::kernel::sys::requirements::kernel()
        .unwrap()
        .has_frags()
    {
        eprintln!("this kernel has no multi-buffer XDP: nothing to test");
        return;
    }
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set eth0 mtu 9000");
    }
    hosts.run("attach eth0 --rate 8kbit --burst 20000b --mode native");
    assert_eq!(hosts.status()["frags"], true);
    let (from, to) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frame = Frame {
        payload: 8_000,
        ..hosts.frame(CLIENT)
    }
    .bytes();
    (0..5).for_each(|_| from.send(&frame));
    let received = to.receive(SILENCE);
    assert_eq!(
        received.iter().map(Vec::len).collect::<Vec<_>>(),
        [frame.len(); 2],
        "20,000 / 8,042"
    );
    let status = hosts.status();
    assert_eq!(number(&status["seen"]["bytes"]), 5 * frame.len() as u64);
    assert_eq!(number(&status["passed"]["bytes"]), 2 * frame.len() as u64);
}
