//! An exporter that is killed while it answers does not disturb limiter, and the next exporter gets the port at once.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use limiter_tests::{
    exporter::Exporter,
    hosts::on,
    need_kernel,
    objects::{Object, expect_gone},
};
use nix::sys::signal::Signal;

use crate::case::{ABSENT, BY_OLD, Case, Place};

const ADDRESS: &str = "127.0.0.1:9110";
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const ROUNDS: u32 = 8;

#[test]
fn killed_exporter_leaves_limits_and_port_intact() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], BY_OLD, ABSENT);
    let server = &place.hosts.server;
    let pins = || Object::pinned_in(&place.hosts.pins());
    let before = pins();
    let cut_short = AtomicU32::new(0);
    for round in 0..ROUNDS {
        // Open connections to the previous exporter do not block the port.
        let exporter = Exporter::start_at(server, ADDRESS);
        assert!(
            exporter
                .get("/metrics")
                .contains("limiter_interface_packets_total")
        );
        let mut hanging = exporter.connect();
        hanging.write_all(&REQUEST[..20]).unwrap();
        let mut deaf = exporter.connect();
        deaf.write_all(&REQUEST.repeat(20)).unwrap();
        let process = exporter.process();
        let mut held = Object::all_of(process);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    // Asks as fast as possible until the exporter is gone.
                    while let Ok(mut scraper) = on(server, || TcpStream::connect(ADDRESS)) {
                        let _ = scraper.write_all(REQUEST);
                        let _ = scraper.read_to_end(&mut Vec::new());
                    }
                    cut_short.fetch_add(1, Ordering::Relaxed);
                });
            }
            thread::sleep(Duration::from_millis(u64::from(round) * 7));
            held.extend(Object::all_of(process));
            nix::sys::signal::kill(process, Signal::SIGKILL).unwrap();
        });
        exporter.wait();
        assert_eq!(case.settled("killed"), BY_OLD);
        case.expect_tidy("killed");
        assert_eq!(pins(), before);
        expect_gone(held.difference(&before));
        drop((hanging, deaf));
    }
    assert_eq!(cut_short.load(Ordering::Relaxed), 2 * ROUNDS);
    place.hosts.run("detach eth0");
    assert_eq!(case.settled("detached"), ABSENT);
}
