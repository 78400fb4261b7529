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

fn count(printed: &str, source: &str) -> usize {
    let of_source = |line: &&str| line.contains(source);
    printed.lines().filter(of_source).count()
}

#[test]
fn every_packet_of_one_limit_is_logged() {
    need_kernel!();
    let (printed, passed) = logged(ONE, &["192.0.2.7"]);
    assert_eq!(passed, 2);
    assert_eq!(count(&printed, "192.0.2.7"), 3, "{printed}");
    assert_eq!(count(&printed, ", passed: admitted"), 2, "{printed}");
    assert_eq!(count(&printed, ", dropped: over the limit"), 1, "{printed}");
}

/// Listed sources are logged too.
#[test]
fn packets_of_several_limits_and_lists_are_logged() {
    need_kernel!();
    let sources = [
        "192.0.2.7",
        "198.51.100.7",
        "203.0.113.66",
        "2001:db8:bad::7",
    ];
    let (printed, passed) = logged(LARGE, &sources);
    assert_eq!(passed, 2 + 3);
    for source in sources {
        assert_eq!(count(&printed, source), 3, "{source}: {printed}");
    }
    assert_eq!(count(&printed, ", passed: allowed"), 3, "{printed}");
    assert_eq!(count(&printed, ", dropped: denied"), 6, "{printed}");
}
