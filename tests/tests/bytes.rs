//! Native mode, generic mode and mode tc count the same bytes of a packet: those of the frame on the wire, from the hardware
//! addresses on, with VLAN tags and padding, without the checksum behind it.

use limiter_tests::{
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER_IPV6},
    need, need_kernel, number,
    packet::{self, Ends, Segment},
    traffic::{Traffic, ends},
};

/// Frames of each form, with a name.
fn frames(hosts: &Hosts) -> Vec<(&'static str, Vec<u8>)> {
    let wire = ends(hosts, CLIENT, 9);
    let padded = |frame: Vec<u8>| {
        let mut frame = frame;
        frame.resize(60, 0);
        frame
    };
    let six = Ends {
        from: (CLIENT_IPV6, 40_000).into(),
        to: (SERVER_IPV6, 9).into(),
        ..wire
    };
    vec![
        ("without payload", wire.udp(&[])),
        ("padded", padded(wire.udp(&[]))),
        ("of the shortest length", wire.udp(&[0; 18])),
        ("of the longest length", wire.udp(&[0; 1472])),
        ("SYN", wire.tcp(Segment::Syn)),
        ("IPv6", six.udp(&[0; 100])),
        ("ARP", packet::arp()),
        ("tagged", tagged(&wire.udp(&[0; 18]), &[0x81, 0, 0, 7])),
        (
            "tagged with a priority",
            tagged(&wire.udp(&[0; 18]), &[0x81, 0, 0xe0, 0]),
        ),
        (
            "tagged twice",
            tagged(&wire.udp(&[0; 18]), &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]),
        ),
        (
            "tagged and padded",
            tagged(&padded(wire.udp(&[])), &[0x81, 0, 0, 7]),
        ),
    ]
}

/// The frame with these bytes behind its addresses.
fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

fn modes() -> impl Iterator<Item = &'static str> {
    let modes = ["native", "generic", "tc"].into_iter();
    modes.filter(|mode| *mode != "tc" || need::tcx())
}

#[test]
fn bytes_are_those_of_the_frame_in_each_mode() {
    need_kernel!();
    const EACH: u64 = 3;
    for mode in modes() {
        let hosts = Hosts::new();
        hosts.run(&format!("attach eth0 --rate 1M/s --burst 1M --mode {mode}"));
        let traffic = Traffic::new(&hosts);
        let mut before = 0;
        for (form, frame) in frames(&hosts) {
            traffic.send(&[&frame[..]; EACH as usize]);
            let bytes = number(&hosts.status()["seen"]["bytes"]);
            let length = frame.len() as u64;
            assert_eq!(bytes - before, EACH * length, "{mode}, {form}: {length}");
            before = bytes;
        }
    }
}

/// A limit in bits charges the bytes that are counted.
#[test]
fn limit_in_bits_admits_the_same_packets_in_each_mode() {
    need_kernel!();
    const BURST: u64 = 65_600;
    for mode in modes() {
        for form in ["padded", "tagged and padded", "of the longest length"] {
            let hosts = Hosts::new();
            let limit = format!("--rate 8bit --burst {BURST}b");
            hosts.run(&format!("attach eth0 {limit} --mode {mode}"));
            let frames = frames(&hosts);
            let (_, frame) = frames.iter().find(|(name, _)| *name == form).unwrap();
            let admitted = BURST / frame.len() as u64;
            let sent = vec![&frame[..]; admitted as usize + 50];
            let passed = Traffic::new(&hosts).send(&sent);
            assert_eq!(passed, admitted, "{mode}, {form}");
        }
    }
}
