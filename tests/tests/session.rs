//! Which interfaces the packets of an SSH session come through, on real ones.

use std::{net::IpAddr, process::Command};

use limiter_tests::{
    hosts::{CLIENT, Hosts, SERVER},
    need_kernel,
};
use limiter_user::kernel::session::{Session, arrives_on};

fn arrives(hosts: &Hosts, server: IpAddr, interface: &str) -> bool {
    let session = Session {
        client: CLIENT,
        server,
        server_port: 22,
        zone: None,
    };
    let arrives = hosts
        .server
        .namespace
        .block_on(|| async move { arrives_on(&session, interface).await });
    arrives.unwrap().unwrap()
}

fn ip(hosts: &Hosts, line: &str) {
    let status = hosts.server.namespace.run(|| {
        let mut ip = Command::new("ip");
        ip.args(line.split(' ')).status().unwrap()
    });
    assert!(status.unwrap().success(), "ip {line}");
}

#[test]
fn through_the_interface_that_has_the_address_and_what_is_below_it() {
    need_kernel!();
    let hosts = Hosts::new();
    ip(&hosts, "link set lo up");
    // Both ends here: neither is below the other.
    ip(&hosts, "link add pair0 type veth peer name pair1");
    ip(&hosts, "address add 198.51.100.1/24 dev pair0");
    assert!(arrives(&hosts, SERVER, "eth0"));
    let own = [198, 51, 100, 1].into();
    assert!(arrives(&hosts, own, "pair0"));
    for other in ["lo", "pair0", "pair1", "eth9"] {
        assert!(!arrives(&hosts, SERVER, other), "{other}");
    }
    assert!(!arrives(&hosts, own, "pair1") && !arrives(&hosts, own, "eth0"));
    let local = [127, 0, 0, 1].into();
    assert!(arrives(&hosts, local, "lo") && !arrives(&hosts, local, "eth0"));
    // Of no interface here: it was translated on the way.
    assert!(arrives(&hosts, [203, 0, 113, 9].into(), "eth0"));

    ip(&hosts, "link add bridge0 type bridge");
    ip(&hosts, "link set pair0 master bridge0");
    ip(&hosts, "address add 198.51.100.65/32 dev bridge0");
    let bridged = [198, 51, 100, 65].into();
    assert!(arrives(&hosts, bridged, "bridge0") && arrives(&hosts, bridged, "pair0"));
    assert!(!arrives(&hosts, bridged, "eth0"));
}
