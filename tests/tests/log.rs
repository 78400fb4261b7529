//! `log` prints every packet and its verdict, under any configuration.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use limiter_tests::{
    command::prepared, files::Folder, hosts::Hosts, need_kernel, traffic::Traffic,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A configuration that needs most of the available stack.
const LARGE: &str = r#"
exempt = ["established", "control"]

[lists]
allow = ["198.51.100.7"]
deny = ["203.0.113.66", "2001:db8:bad::/48"]
own = ["192.0.2.0/24"]

[[limit]]
name = "port"
match = { protocol = "udp", destination_port = [9, "5300-5353"], source = "own" }
key = "/32,/64,destination_port"
rate = "1/h"
burst = 2

[[limit]]
name = "window"
algorithm = "fixed-window"
rate = "1k/s"
"#;

const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 2\n";

/// The output of `log` for three packets from each of `sources`, and the number of packets that pass.
fn logged(text: &str, sources: &[&str]) -> (String, u64) {
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", text);
    hosts.run(&format!("attach eth0 --config {file}"));
    let spawned = hosts.server.namespace.run(|| {
        prepared("log eth0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    let mut child = spawned.unwrap().unwrap();
    // Waits for the message that `log` has begun.
    let mut output = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut output).unwrap();
    assert!(output.contains("every packet is logged"), "{output}");
    assert_eq!(hosts.status()["logging"], true);
    let traffic = Traffic::new(&hosts);
    let passed = sources.iter().map(|source| traffic.passed(source, 3)).sum();

    let lines = 3 * sources.len();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    for _ in 0..lines {
        stdout.read_line(&mut printed).unwrap();
    }
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    stdout.read_to_string(&mut printed).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(printed.lines().count(), lines, "a line each: {printed}");
    assert_eq!(hosts.status()["logging"], false);
    (printed, passed)
}

/// Listed sources are logged too.
#[test]
fn every_packet_is_logged_with_its_verdict() {
    need_kernel!();
    let one = &["192.0.2.7"][..];
    let listed = &[
        "192.0.2.7",
        "198.51.100.7",
        "203.0.113.66",
        "2001:db8:bad::7",
    ];
    for (text, sources, wanted, lines) in [
        (
            ONE,
            one,
            2,
            &[(", passed: admitted", 2), (", dropped: over the limit", 1)],
        ),
        (
            LARGE,
            listed,
            2 + 3,
            &[(", passed: allowed", 3), (", dropped: denied", 6)],
        ),
    ] {
        let (printed, passed) = logged(text, sources);
        assert_eq!(passed, wanted, "{printed}");
        let of_sources = sources.iter().map(|source| (*source, 3));
        for (text, count) in of_sources.chain(lines.iter().copied()) {
            let found = printed.lines().filter(|line| line.contains(text)).count();
            assert_eq!(found, count, "{text}: {printed}");
        }
    }
}
