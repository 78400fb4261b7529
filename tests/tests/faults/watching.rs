//! A full ring buffer affects no limit: lost events are counted, and no packet waits.

use std::{
    mem::size_of,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use limiter_common::abi::events::{EVENTS_BYTES, Event};
use limiter_tests::{
    SetOnDrop, cpus::pin_to, eventually, hosts::Hosts, need_kernel, number, raw::Raw,
    watcher::Watcher,
};
use nix::sys::signal::Signal;

/// Minimum time for which a stopped watcher still counts as watching (`LEASE` of `kernel/ops/watch.rs` minus the second
/// between two renewals).
const WATCHED: Duration = Duration::from_secs(2);
/// Number of records, each with a header, that fit into the buffer.
const ROOM: u64 = EVENTS_BYTES as u64 / (size_of::<Event>() as u64 + 8);
const BURST: u64 = 3;

fn packets(hosts: &Hosts, verdict: &str) -> u64 {
    number(&hosts.status()[verdict]["packets"])
}

/// Number of drops that are not counted as lost. An event is counted as lost just before its drop is counted.
fn reported(hosts: &Hosts) -> u64 {
    packets(hosts, "dropped").saturating_sub(number(&hosts.status()["events_lost"]))
}

/// Sends from both CPUs until events have filled the buffer, or the watch is over. Returns the number of packets.
fn flood(hosts: &Hosts, begin: Instant) -> u64 {
    let frame = hosts.frame("192.0.2.7".parse().unwrap()).bytes();
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for cpu in [0, 1] {
            let raw = Raw::open(&hosts.client);
            let (over, sent, frame) = (&over, &sent, &frame);
            scope.spawn(move || {
                // Each CPU has its own budget of events.
                pin_to(cpu);
                while !over.load(Ordering::Relaxed) {
                    (0..100).for_each(|_| raw.send(frame));
                    sent.fetch_add(100, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let _over = SetOnDrop(&over);
        while begin.elapsed() < WATCHED * 9 / 10 && reported(hosts) < ROOM {
            thread::sleep(Duration::from_millis(20));
        }
    });
    sent.into_inner()
}

#[test]
fn full_ring_buffer_loses_events_and_not_limits() {
    need_kernel!();
    const ATTEMPTS: usize = 5;
    let mut results = Vec::new();
    for _ in 0..ATTEMPTS {
        let hosts = Hosts::new();
        let attach = ["attach", "eth0", "--rate", "1/h", "--burst", "3"];
        hosts.limiter(&attach).expect(0);
        let mut watcher = Watcher::start(&hosts, &["--json"]);
        watcher.signal(Signal::SIGSTOP);
        let begin = Instant::now();
        let sent = flood(&hosts, begin);
        // Measured before the queries, which may be slow.
        let took = begin.elapsed();
        eventually("all are seen", || packets(&hosts, "seen") == sent);
        // The limit is exact, and no packet has waited.
        assert_eq!(packets(&hosts, "passed"), BURST);
        assert_eq!(packets(&hosts, "dropped"), sent - BURST);
        let reported = reported(&hosts);
        results.push((took, reported, sent));
        if took > WATCHED || reported < ROOM * 9 / 10 {
            // The machine was too busy for this check.
            continue;
        }
        assert!(reported <= ROOM, "{reported} reported, room for {ROOM}");
        watcher.signal(Signal::SIGCONT);
        // No event is missing: the watcher has waited while its output pipe was full.
        for _ in 0..reported {
            assert_eq!(watcher.event()["source"], "192.0.2.7");
        }
        let (shown, lost) = watcher.end().sums();
        assert_eq!((shown, lost), (reported, sent - BURST - reported));
        // The next watcher gets events again.
        let mut next = Watcher::start(&hosts, &["--json"]);
        Raw::open(&hosts.client).send(&hosts.frame("192.0.2.7".parse().unwrap()).bytes());
        assert_eq!(next.event()["source"], "192.0.2.7");
        return;
    }
    panic!("never full, of room for {ROOM}: {results:?}");
}
