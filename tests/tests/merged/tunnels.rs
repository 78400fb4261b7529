//! Merged packets in tunnels, and of SCTP: what local users send, and what the interface merges.

use std::{
    env,
    net::{IpAddr, Ipv4Addr, UdpSocket},
};

use limiter_tests::{
    command::ip,
    eventually,
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    raw,
    testbed::Host,
};

use super::wire::{
    LIMIT, Seen, agree, cut_before_the_wire, minus, need_tcx, report_at_once, send_sctp, send_tcp,
    send_udp, sent, tool, wait_for_silence,
};

/// Tunnels: commands of `ip` that make `t0` from OWN to PEER (IPv4), or from OWN6 to PEER6; and the versions of IP inside.
const KINDS: &str = "\
link add t0 type vxlan id 7 dstport 4789 local OWN remote PEER dev eth0;46
link add t0 type vxlan id 7 dstport 5000 local OWN6 remote PEER6 dev eth0;46
link add t0 type geneve id 7 remote PEER;46
link add t0 type geneve id 7 remote PEER6;46
link add t0 type gretap local OWN remote PEER;46
link add t0 type gretap local OWN remote PEER key 5;46
link add t0 type gre local OWN remote PEER;46
link add t0 type ip6gretap local OWN6 remote PEER6;46
link add t0 type ip6gre local OWN6 remote PEER6;46
link add t0 type ipip local OWN remote PEER;4
link add t0 type sit local OWN remote PEER;6
link add t0 type ip6tnl local OWN6 remote PEER6 mode any;46
fou add port 5555 ipproto 4,link add t0 type ipip local OWN remote PEER encap fou encap-sport 5555 encap-dport 5555;4
fou add port 5556 gue,link add t0 type ipip local OWN remote PEER encap gue encap-sport 5556 encap-dport 5556;4";

/// Whether this is a machine with all modules (`cargo xtask test --kernels`).
fn has_all_modules() -> bool {
    env::var_os("release").is_some()
}

/// Makes the tunnel on a host. Returns false if the kernel has none of this kind.
fn make(host: &Host, commands: &str, [own, peer, own6, peer6]: [IpAddr; 4], number: u8) -> bool {
    for command in commands.split(',') {
        let command = command
            .replace("OWN6", &own6.to_string())
            .replace("PEER6", &peer6.to_string())
            .replace("OWN", &own.to_string())
            .replace("PEER", &peer.to_string());
        if tool(host, &format!("ip {command}")).is_none() {
            return false;
        }
    }
    for line in [
        "link set lo up".to_owned(),
        "link set t0 up".to_owned(),
        format!("addr add 10.9.0.{number}/24 dev t0"),
    ] {
        ip(&host.namespace, &line);
    }
    // Not all of them carry IPv6.
    let _ = tool(host, &format!("ip addr add fd09::{number}/64 dev t0 nodad"));
    true
}

fn remove(host: &Host) {
    let _ = tool(host, "ip link del t0");
    for port in [5_555, 5_556] {
        let _ = tool(host, &format!("ip fou del port {port}"));
    }
}

/// Sends TCP and UDP through the tunnel to this address, and compares. `header`: bytes of each packet that the sender
/// does not count.
fn compare(seen: &Seen, header: u64, hosts_of: [&Host; 2], destination: IpAddr, case: &str) {
    let [sender, receiver] = hosts_of;
    wait_for_silence(sender);
    let before = seen.with_sent(sender);
    send_tcp(sender, receiver, destination, &(0, Vec::new()));
    let real = agree(seen, sender, before, header);
    assert!(real.0 > 1_000, "{case}: {real:?}");
    let socket = on(sender, || {
        let any = if destination.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        UdpSocket::bind(any).unwrap()
    });
    for (segment, payload) in [(8, 400), (48, 48 * 20), (200, 9_999), (1_000, 30_000)] {
        let before = seen.with_sent(sender);
        send_udp(&socket, (destination, 9).into(), segment, payload).unwrap();
        let (mut charged, mut real) = ((0, 0), (0, 0));
        eventually("all packets are seen", || {
            charged = minus(seen.now(), before.0);
            real = minus(sent(sender), before.1);
            real.1 += real.0 * header;
            real.0 > 0 && charged.0 >= real.0
        });
        let case = format!("{case}, UDP of {segment}: charged {charged:?}, is {real:?}");
        assert_eq!(charged.0, real.0, "{case}");
        let most = real.1 + if destination.is_ipv6() { 8 } else { 0 };
        assert!((real.1..=most).contains(&charged.1), "{case}");
    }
}

#[test]
fn packets_in_tunnels_count_as_on_the_wire() {
    need_tcx!();
    let hosts = Hosts::of_both_families();
    for host in [&hosts.server, &hosts.client] {
        cut_before_the_wire(host);
        report_at_once(host);
    }
    tool(&hosts.server, "ethtool -K eth0 gro on").unwrap();
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    hosts.run(&format!("attach eth0 --hook tc {LIMIT}"));
    let [outgoing, incoming] = ["eth0:out", "eth0"].map(|place| Seen::of(&hosts, place));
    let mut found = 0;
    for line in KINDS.lines() {
        let (commands, versions) = line.split_once(';').unwrap();
        let server = make(
            &hosts.server,
            commands,
            [SERVER, CLIENT, SERVER_IPV6, CLIENT_IPV6],
            1,
        );
        let client = make(
            &hosts.client,
            commands,
            [CLIENT, SERVER, CLIENT_IPV6, SERVER_IPV6],
            2,
        );
        if !(server && client) {
            assert!(!has_all_modules(), "this kernel has no {commands}");
            println!("this kernel has no {commands}");
        } else {
            found += 1;
            for version in versions.chars() {
                let [to_server, to_client]: [IpAddr; 2] = match version {
                    '4' => ["10.9.0.1", "10.9.0.2"].map(|address| address.parse().unwrap()),
                    _ => ["fd09::1", "fd09::2"].map(|address| address.parse().unwrap()),
                };
                let case = format!("{commands}, IPv{version}");
                println!("{case}");
                let both = [&hosts.server, &hosts.client];
                compare(&outgoing, 0, both, to_client, &format!("{case}, out"));
                let both = [&hosts.client, &hosts.server];
                // To a peer that polls, veth does not count Ethernet headers.
                compare(&incoming, 14, both, to_server, &format!("{case}, in"));
            }
        }
        remove(&hosts.server);
        remove(&hosts.client);
    }
    outgoing.expect_shown(&hosts, "eth0:out");
    incoming.expect_shown(&hosts, "eth0");
    assert!(found > 0, "this kernel has no tunnels");
}

#[test]
fn sctp_packets_count_as_on_the_wire() {
    need_tcx!();
    if !has_all_modules() && raw::sctp().is_err() {
        println!("this kernel has no SCTP; the emulated machines have");
        return;
    }
    let hosts = Hosts::new();
    cut_before_the_wire(&hosts.server);
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    let seen = Seen::of(&hosts, "eth0:out");
    let before = seen.with_sent(&hosts.server);
    let IpAddr::V4(destination) = CLIENT else {
        unreachable!("{CLIENT}")
    };
    let destination: Ipv4Addr = destination;
    send_sctp(&hosts.server, &hosts.client, destination);
    let real = agree(&seen, &hosts.server, before, 0);
    assert!(real.0 > 1_000, "{real:?}");
}
