//! `check --protocol` names the limits that a packet meets, and predicts the kernel's verdict about it.

use std::net::SocketAddr;

use limiter_tests::{
    hosts::Hosts,
    need_kernel,
    packet::{Ends, Segment},
    traffic::Traffic,
};
use serde_json::{Value, json};

const FILE: &str = r#"
interfaces = ["eth0"]

[lists]
allow = ["192.0.2.9"]
deny = ["203.0.113.0/24"]
friends = ["192.0.2.8"]

[[limit]]
name = "syn"
match = { protocol = "tcp", tcp_flags = "syn" }
rate = "1/h"
burst = 3

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53, unless = "friends" }
rate = "1/h"
burst = 2

[[limit]]
name = "watched"
match = { protocol = "udp" }
rate = "1/h"
burst = 1
shadow = true

[[limit]]
name = "all"
key = "/24,/48"
rate = "1/h"
burst = 10
"#;

/// The frame that these words of `check` describe.
fn frame(hosts: &Hosts, source: &str, words: &str) -> Vec<u8> {
    let macs = hosts.frame(source.parse().unwrap()).macs;
    let ends = Ends {
        macs,
        from: SocketAddr::new(source.parse().unwrap(), 40_000),
        to: "192.0.2.1:0".parse().unwrap(),
    };
    match words {
        "--protocol tcp --port 443" => ends.at(40_000, 443).tcp(Segment::Syn),
        "--protocol tcp --port 443 --flags ack" => {
            ends.at(40_000, 443).tcp_with(Segment::Data, &[])
        }
        "--protocol tcp --port 443 --flags syn,ack" => ends.at(40_000, 443).tcp(Segment::SynAck),
        "--protocol udp --port 53" => ends.at(40_000, 53).udp(&[]),
        "--protocol udp --port 5000" => ends.at(40_000, 5_000).udp(&[]),
        "--protocol icmp" => ends.ping(&[]),
        words => panic!("{words}"),
    }
}

fn explained(hosts: &Hosts, source: &str, words: &str) -> Value {
    hosts.json(&format!("check eth0 {source} {words} --json"))["packet"].clone()
}

#[test]
fn check_predicts_the_verdict_about_each_packet() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    hosts.run("ban eth0 198.51.100.0/28");
    let traffic = Traffic::new(&hosts);
    let kinds = [
        "--protocol tcp --port 443",
        "--protocol tcp --port 443 --flags ack",
        "--protocol tcp --port 443 --flags syn,ack",
        "--protocol udp --port 53",
        "--protocol udp --port 5000",
        "--protocol icmp",
    ];
    let mut verdicts = [0, 0];
    for source in [
        "192.0.2.7",
        "192.0.2.8",
        "192.0.2.9",
        "203.0.113.7",
        "198.51.100.7",
    ] {
        for _ in 0..3 {
            for words in kinds {
                let predicted = explained(&hosts, source, words);
                let frame = frame(&hosts, source, words);
                let passes = traffic.send(&[&frame]) == 1;
                assert_eq!(predicted["passes"], passes, "{source} {words}: {predicted}");
                verdicts[usize::from(passes)] += 1;
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 20), "{verdicts:?}");
}

#[test]
fn check_names_limits_lists_and_what_it_needs() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    let short = |source, words| {
        let found = explained(&hosts, source, words);
        let field = |name: &str| found[name].clone();
        json!(["limits", "reason", "limit", "missing"].map(field))
    };
    for (source, words, expected) in [
        (
            "192.0.2.7",
            "--protocol tcp --port 443",
            json!([["syn", "all"], "admitted", null, []]),
        ),
        (
            "192.0.2.7",
            "--protocol tcp --port 443 --flags ack",
            json!([["all"], "admitted", null, []]),
        ),
        (
            "192.0.2.7",
            "--protocol udp --port 53",
            json!([["dns", "watched", "all"], "admitted", null, []]),
        ),
        (
            "192.0.2.8",
            "--protocol udp --port 53",
            json!([["watched", "all"], "admitted", null, []]),
        ),
        (
            "192.0.2.9",
            "--protocol udp --port 53",
            json!([[], "allowed", null, []]),
        ),
        (
            "203.0.113.7",
            "--protocol icmp",
            json!([[], "deny", null, []]),
        ),
        (
            "192.0.2.7",
            "--protocol udp",
            json!([[], null, null, ["--port"]]),
        ),
        // No limit on TCP looks at the port.
        (
            "192.0.2.7",
            "--protocol tcp",
            json!([["syn", "all"], "admitted", null, []]),
        ),
    ] {
        assert_eq!(short(source, words), expected, "{source} {words}");
    }
    let asked = frame(&hosts, "192.0.2.7", "--protocol udp --port 53");
    Traffic::new(&hosts).send(&[&asked, &asked]);
    let text = hosts.run("check eth0 192.0.2.7 --protocol udp --port 53");
    for line in [
        "192.0.2.7 on eth0: udp to port 53\n",
        "\n  dns: 0.0 of 2 tokens\n",
        "\n  limits that do not match: syn\n",
        "\n  this packet would be DROPPED: over the limit dns\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("  syn: "), "{text}");
    let text = hosts.run("check eth0 192.0.2.7 --protocol udp --port 54");
    let passes = "\n  this packet would pass only because of shadow: over the limit watched\n";
    assert!(text.contains(passes), "{text}");
    hosts
        .limiter("check eth0 192.0.2.7 --flags syn")
        .expect_error(2, &["--protocol"]);
}

/// Bans and the deny list also drop packets of the host's own connections: `check` does not promise that these pass.
#[test]
fn check_of_a_banned_source_needs_no_port_and_promises_no_exemption() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s --exempt established --deny 203.0.113.0/24");
    hosts.run("limit eth0 web --rate 100/s --port 80");
    hosts.run("ban eth0 198.51.100.7");
    let own = "own connections pass uncharged";
    for (source, reason) in [("198.51.100.7", "ban"), ("203.0.113.7", "deny")] {
        for words in ["--protocol tcp --port 80", "--protocol tcp"] {
            let found = explained(&hosts, source, words);
            assert_eq!(found["passes"], false, "{found}");
            assert_eq!(found["reason"], reason, "{found}");
            assert_eq!(found["exempts_established"], false, "{found}");
            let text = hosts.run(&format!("check eth0 {source} {words}"));
            assert!(!text.contains(own), "{text}");
        }
    }
    let text = hosts.run("check eth0 198.51.100.7");
    let all =
        "its packets are dropped while the ban lasts, also those of the host's own connections";
    assert!(text.contains(all), "{text}");
    let text = hosts.run("check eth0 192.0.2.7 --protocol tcp --port 80");
    assert!(text.contains(own), "{text}");
}

#[test]
fn option_that_selects_nothing_is_noted() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s");
    let note = "no limit's key has --port: add --protocol";
    let told = |line: &str| {
        let outcome = hosts.limiter(line);
        outcome.expect(0);
        outcome.stderr.contains(note)
    };
    assert!(told("check eth0 192.0.2.7 --port 22"));
    assert!(!told("check eth0 192.0.2.7"));
    assert!(!told("check eth0 192.0.2.7 --port 22 --protocol tcp"));
    hosts.run("limit eth0 ports --rate 5/s --key /32,/64,destination_port");
    assert!(!told("check eth0 192.0.2.7 --port 22"));
}
