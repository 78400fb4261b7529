//! Sets up and measures the wire between the two hosts.

use std::{process::Command, sync::atomic::Ordering};

use super::Soak;
use crate::{
    hosts::{Hosts, on},
    number,
};

pub fn set_jumbo_mtu(hosts: &Hosts) {
    for host in [&hosts.server, &hosts.client] {
        let mut ip = Command::new("ip");
        ip.args(["link", "set", "eth0", "mtu", "9000"]);
        assert!(on(host, || ip.status()).unwrap().success());
    }
}

/// Maximum number of packets that the wire dropped before the program. Packets are sent again if the kernel reports the
/// drop.
pub fn lost(soak: &Soak<'_>) -> u64 {
    let mut ip = Command::new("ip");
    ip.args(["-s", "-j", "link", "show", "eth0"]);
    let output = on(&soak.hosts.client, || ip.output()).unwrap();
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = number(&links[0]["stats64"]["tx"]["dropped"]);
    soak.lost.store(lost, Ordering::Relaxed);
    lost
}
