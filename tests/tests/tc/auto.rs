//! Mode `auto` takes the network stack where native mode costs more than it saves, unless the settings need XDP.

use std::process::Command;

use limiter_tests::{
    files::Folder,
    hosts::{Hosts, on},
    need, need_kernel,
    testbed::Host,
    tun::Tun,
};

use super::need_tcx;

const LIMIT: &str =
    "[[limit]]\nname = \"default\"\nrate = \"5/s\"\nmatch = { protocol = \"tcp\" }\n";
const PROOF: &str = "[[limit]]\nname = \"default\"\nrate = \"5/s\"\nmatch = { protocol = \"tcp\" }\nproof = \"syn-cookie\"\n";

fn has_offload(host: &Host) -> bool {
    let shown = on(host, || {
        Command::new("ethtool").args(["-k", "eth0"]).output()
    })
    .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    text.contains("tx-tcp-segmentation: on")
}

#[test]
fn auto_takes_the_network_stack_on_a_veth_unless_settings_need_xdp() {
    need_tcx!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let expected = hosts.json("doctor eth0 --json");
    assert_eq!(expected["mode"], "tc", "{expected:#}");
    for (limit, mode) in [
        ("--rate 5", "tc"),
        ("--rate 8mbit --burst 65558b", "tc"),
        // A merged packet would never be admitted.
        ("--rate 8kbit --burst 20000b", "native"),
    ] {
        hosts.run(&format!("attach eth0 {limit} --mode auto"));
        assert_eq!(hosts.status()["mode"], mode, "{limit}");
        // Native mode costs this: the other end sends without offload.
        assert_eq!(has_offload(&hosts.client), mode == "tc", "{limit}");
        hosts.run("detach eth0");
    }
    let proof = folder.write("proof.toml", PROOF);
    let plain = folder.write("plain.toml", LIMIT);
    hosts.run(&format!("attach eth0 --config {proof}"));
    assert_eq!(hosts.status()["mode"], "native", "a proof needs XDP");
    // An attachment keeps its mode.
    hosts.run(&format!("reload eth0 --config {plain}"));
    assert_eq!(hosts.status()["mode"], "native");
    hosts.run(&format!("reload eth0 --config {proof}"));
    hosts.run("detach eth0");
    hosts.run(&format!("attach eth0 --config {plain}"));
    let reload = hosts.limiter(&format!("reload eth0 --config {proof}"));
    reload.expect_error(1, &["syn-cookie", "--mode xdp"]);
    assert_eq!(hosts.status()["mode"], "tc");
    hosts.run("detach eth0");
    for mode in ["xdp", "native"] {
        hosts.run(&format!("attach eth0 --rate 5 --mode {mode}"));
        assert_eq!(hosts.status()["mode"], "native", "{mode}");
        hosts.run("detach eth0");
    }
}

#[test]
fn auto_takes_the_network_stack_on_a_tap() {
    need_tcx!();
    let hosts = Hosts::new();
    let _tap = Tun::tap(&hosts.server, "tap0").unwrap();
    let expected = hosts.json("doctor tap0 --json");
    assert_eq!(expected["mode"], "tc", "{expected:#}");
    hosts.run("attach tap0 --rate 5");
    let status = hosts.json("status tap0 --json");
    assert_eq!(status["interfaces"][0]["mode"], "tc");
}
