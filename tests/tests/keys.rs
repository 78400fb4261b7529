//! Shadow mode drops nothing, and jumbo frames count with their whole length.

use std::time::Duration;

use limiter_tests::{
    command::ip,
    hosts::{CLIENT, Hosts},
    need_kernel, number,
    packet::Frame,
    raw::Raw,
};

const SILENCE: Duration = Duration::from_millis(200);

/// Packets over the limit are counted.
#[test]
fn shadow_drops_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3 --shadow");
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frame = hosts.frame(CLIENT).bytes();
    (0..10).for_each(|_| from.send(&frame));
    assert_eq!(receiver.receive(SILENCE).len(), 10);
    let status = hosts.status();
    assert_eq!(number(&status["passed"]["packets"]), 10);
    assert_eq!(number(&status["would_drop"]["packets"]), 7);
    assert_eq!(number(&status["limits"][0]["would_drop"]["packets"]), 7);
    assert_eq!(number(&status["dropped"]["packets"]), 0);

    hosts.run("set eth0 --shadow off");
    (0..10).for_each(|_| from.send(&frame));
    assert_eq!(
        receiver.receive(SILENCE).len(),
        0,
        "the bucket was charged in shadow too"
    );
    assert_eq!(number(&hosts.status()["dropped"]["packets"]), 10);
}

/// The kernel must support multi-buffer XDP.
#[test]
fn jumbo_frames_count_with_their_whole_length() {
    need_kernel!();
    if !limiter_kernel::sys::requirements::has_frags() {
        eprintln!("this kernel has no multi-buffer XDP: nothing to test");
        return;
    }
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set eth0 mtu 9000");
    }
    hosts.run("attach eth0 --rate 8kbit --burst 20000b --mode native");
    assert_eq!(hosts.status()["frags"], true);
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frame = Frame {
        payload: 8_000,
        ..hosts.frame(CLIENT)
    }
    .bytes();
    (0..5).for_each(|_| from.send(&frame));
    let received = receiver.receive(SILENCE);
    assert_eq!(
        received.iter().map(Vec::len).collect::<Vec<_>>(),
        [frame.len(); 2],
        "20,000 / 8,042"
    );
    let status = hosts.status();
    assert_eq!(number(&status["seen"]["bytes"]), 5 * frame.len() as u64);
    assert_eq!(number(&status["passed"]["bytes"]), 2 * frame.len() as u64);
}
