//! WireGuard's interface has no Ethernet headers, and is limited in both directions.

use std::{net::UdpSocket, time::Duration};

use limiter_tests::{
    command::ip,
    hosts::{Hosts, on},
    need, need_kernel,
};

use super::{need_tcx, tool};

#[test]
fn wireguard_is_limited_in_both_directions() {
    need_tcx!();
    let hosts = Hosts::new();
    let (server, client) = (&hosts.server, &hosts.client);
    if tool(server, "ip link add wg0 type wireguard", "").is_none() {
        eprintln!("this kernel has no WireGuard");
        return;
    }
    tool(client, "ip link add wg0 type wireguard", "").unwrap();
    let keys = [server, client].map(|host| {
        let secret = tool(host, "wg genkey", "").unwrap();
        let public = tool(host, "wg pubkey", &secret).unwrap();
        (secret, public)
    });
    for (host, own, peer, inside, outside) in [
        (server, &keys[0], &keys[1], "10.8.0.1", "192.0.2.2"),
        (client, &keys[1], &keys[0], "10.8.0.2", "192.0.2.1"),
    ] {
        let peer = format!(
            "peer {} endpoint {outside}:51820 allowed-ips 0.0.0.0/0",
            peer.1
        );
        let set = format!("wg set wg0 listen-port 51820 private-key /proc/self/fd/0 {peer}");
        tool(host, &set, &own.0).unwrap();
        ip(&host.namespace, &format!("addr add {inside}/24 dev wg0"));
        ip(&host.namespace, "link set wg0 up");
    }
    let socket = on(server, || UdpSocket::bind("10.8.0.1:9").unwrap());
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let mut buffer = [0; 64];
    let send = |count| {
        on(client, || {
            let socket = UdpSocket::bind("10.8.0.2:0").unwrap();
            (0..count).for_each(|_| drop(socket.send_to(b"hello", "10.8.0.1:9")));
        });
    };
    // The first packet waits for the handshake.
    send(1);
    assert!(socket.recv(&mut buffer).is_ok());
    hosts.run("attach wg0 --rate 1/h --burst 5");
    send(20);
    assert_eq!(
        std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count(),
        5
    );
    hosts.run("attach wg0:out --rate 1/h --burst 3");
    let answers = on(client, || UdpSocket::bind("10.8.0.2:9").unwrap());
    answers
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    for _ in 0..20 {
        let _ = socket.send_to(b"hello", "10.8.0.2:9");
    }
    assert_eq!(
        std::iter::from_fn(|| answers.recv(&mut buffer).ok()).count(),
        3
    );
}
