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

/// Sends a packet from each of these sources. Checks how many pass, and how many buckets there are.
fn expect(hosts: &Hosts, sources: impl Iterator<Item = String>, passed: u64, tracked: u64) {
    let wire = Raw::open(&hosts.client);
    sources.for_each(|source| wire.send(&hosts.frame(source.parse().unwrap()).bytes()));
    thread::sleep(SILENCE);
    let status = hosts.status();
    assert_eq!(number(&status["passed"]["packets"]), passed, "{status}");
    assert_eq!(number(&status["sources"]["tracked"]), tracked, "{status}");
}

/// Addresses of one IPv6 /64 share a bucket, except link-local ones: all neighbours and the router are in fe80::/64.
#[test]
fn each_source_has_its_own_bucket() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    let networks = ["2001:db8:0:2::1", "fe80::bad", "fe80::1"].map(str::to_owned);
    let ipv4 = (0..50).map(|i| format!("198.51.100.{i}"));
    let of_one_network = (0..50).map(|i| format!("2001:db8:0:1::{i:x}"));
    let all: Vec<_> = ipv4.chain(of_one_network).chain(networks).collect();
    let five_times = (0..5).flat_map(|_| all.clone());
    expect(&hosts, five_times, 50 * 3 + 3 + 3 + 2 * 3, 54);
    for (source, key, dropped) in [
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64", 247),
        ("fe80::bad", "fe80::bad", 2),
    ] {
        let check = hosts.json(&["check", "eth0", source, "--json"]);
        assert_eq!(check["source"], key);
        assert_eq!(number(&check["limits"][0]["dropped_packets"]), dropped);
    }
}

#[test]
fn key_interface_makes_one_bucket_for_all_sources() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 7 --key interface");
    let both = (0..10).flat_map(|i| [format!("198.51.100.{i}"), format!("2001:db8:{i}::1")]);
    expect(&hosts, both, 7, 1);
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
