//! Packets that the host's stack has merged, or has not divided yet, count as the packets of the wire.

use std::{
    io::{IoSlice, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    thread,
    time::Duration,
};

use limiter_tests::{
    command::ip,
    eventually,
    hosts::{Hosts, SERVER, on},
    need, need_kernel, number,
};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};

use super::{SILENCE, need_tcx, tool};

/// Sends `packets` UDP packets of 100 bytes each as one merged one.
fn send_merged(socket: &UdpSocket, packets: usize) {
    let payload = vec![0x5a; 100 * packets];
    let destination = SockaddrIn::new(192, 0, 2, 1, 9);
    let segments = [ControlMessage::UdpGsoSegments(&100)];
    let data = [IoSlice::new(&payload)];
    sendmsg(
        socket.as_raw_fd(),
        &data,
        &segments,
        MsgFlags::empty(),
        Some(&destination),
    )
    .unwrap();
}

#[test]
fn merged_packets_count_as_the_packets_they_were() {
    need_tcx!();
    let hosts = Hosts::new();
    let frame = 14 + 20 + 8 + 100;
    let send = |merged| {
        on(&hosts.client, || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            (0..merged).for_each(|_| send_merged(&socket, 10));
            for _ in 0..20 {
                socket.send_to(&[0; 100], "192.0.2.1:9").unwrap();
            }
        });
    };
    for (line, burst) in [
        ("--rate 1/h --burst 25", 25),
        // 505 frames of 142 bytes.
        ("--rate 8bit --burst 71710b", 505),
    ] {
        hosts.run(&format!("attach eth0 --hook tc {line}"));
        let merged = burst / 10 + 2;
        send(merged);
        let packets = |verdict: &str| number(&hosts.status()[verdict]["packets"]);
        eventually("all packets are seen", || {
            packets("seen") == 10 * merged + 20
        });
        let status = hosts.status();
        assert_eq!(packets("passed"), burst, "{line}");
        assert_eq!(number(&status["passed"]["bytes"]), burst * frame, "{line}");
        let of_limit = &status["limits"][0]["passed"];
        assert_eq!(number(&of_limit["packets"]), burst, "{line}");
        hosts.run("detach eth0");
    }
    let police = "filter add dev eth0 ingress matchall action police pkts_rate 10 pkts_burst 25 conform-exceed drop/ok";
    for line in ["qdisc add dev eth0 clsact", police] {
        if tool(&hosts.server, &format!("tc {line}"), "").is_none() {
            eprintln!("this kernel has no police to compare with");
            return;
        }
    }
    let socket = on(&hosts.server, || UdpSocket::bind((SERVER, 9)).unwrap());
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    // Its bucket is empty at first.
    thread::sleep(Duration::from_secs(3));
    send(4);
    let passed = std::iter::from_fn(|| socket.recv(&mut [0; 128]).ok()).count();
    println!("police, for comparison: burst 25, {passed} of 4 × 10 and 20 packets passed");
}

#[test]
fn download_is_limited_by_destination() {
    need_tcx!();
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set lo up");
    }
    hosts.run("attach eth0:out --rate 40mbit --burst 200kb");
    let listener = on(&hosts.server, || {
        TcpListener::bind((SERVER, 7_000)).unwrap()
    });
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let block = vec![0x5a; 1 << 16];
        while stream.write_all(&block).is_ok() {}
    });
    let mut stream = on(&hosts.client, || {
        TcpStream::connect((SERVER, 7_000)).unwrap()
    });
    let mut block = vec![0; 1 << 16];
    let start = std::time::Instant::now();
    let mut read = 0;
    while start.elapsed() < Duration::from_secs(3) {
        read += stream.read(&mut block).unwrap();
    }
    let most = 200_000.0 + 40e6 / 8.0 * start.elapsed().as_secs_f64();
    drop(stream);
    serving.join().unwrap();
    let read = read as f64;
    assert!(read < most, "{read} of {most}");
    assert!(read > most / 10.0, "{read} of {most}");
}
