//! `doctor` predicts what `attach` then does, and changes nothing.

mod in_the_way;

use std::{fs, process::Command};

use limiter_tests::{eventually, hosts::Hosts, need, need_kernel};
use serde_json::Value;

/// The finding of one check, as `level: found: advice`.
fn finding(diagnosis: &Value, check: &str) -> String {
    let findings = diagnosis["findings"].as_array().unwrap();
    let found: Vec<_> = findings.iter().filter(|f| f["check"] == check).collect();
    let [finding] = found[..] else {
        panic!("not exactly one finding of '{check}': {diagnosis:#}");
    };
    let text = |field: &str| finding[field].as_str().unwrap_or("-").to_owned();
    format!("{}: {}: {}", text("level"), text("found"), text("advice"))
}

#[track_caller]
fn expect(diagnosis: &Value, check: &str, words: &[&str]) {
    let text = finding(diagnosis, check);
    for word in words {
        assert!(text.contains(word), "{check}: wanted '{word}': {text}");
    }
}

/// Runs `doctor --json`. It must end with `status`.
#[track_caller]
fn diagnose(hosts: &Hosts, interface: &str, status: i32) -> Value {
    let outcome = hosts.limiter(&["doctor", interface, "--json"]);
    outcome.expect(status);
    assert_eq!(outcome.stderr.lines().count(), usize::from(status != 0));
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Runs `ip` on the server. Returns false if this kernel lacks the feature.
fn ip(hosts: &Hosts, line: &str) -> bool {
    let run = || Command::new("ip").args(line.split(' ')).output();
    let output = hosts.server.namespace.run(run).unwrap().unwrap();
    output.status.success()
}

/// The mode that `attach` takes on a veth or tap, which is `before` on kernels without tcx.
fn on_veth(before: &str) -> &str {
    if need::tcx() { "tc" } else { before }
}

#[test]
fn doctor_finds_no_problem_on_a_healthy_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    let diagnosis = diagnose(&hosts, "eth0", 0);
    assert_eq!(diagnosis["interface"], "eth0");
    let mode = on_veth("native");
    assert_eq!(diagnosis["mode"], mode);
    for finding in diagnosis["findings"].as_array().unwrap() {
        let no_advice = finding["advice"].is_null();
        assert_eq!(finding["level"] == "ok", no_advice, "{finding}");
        assert_ne!(finding["level"], "problem", "{finding}");
    }
    for (check, word) in [
        ("kernel", "Linux"),
        ("privileges", "CAP_BPF"),
        ("bpffs", "/sys/fs/bpf"),
        ("interface", "up"),
        ("frames", "Ethernet"),
        ("mtu", "1500"),
        ("driver", "veth"),
        ("queues", "CPUs"),
        ("lro", "off"),
        (
            "gro",
            if mode == "tc" {
                "count as the packets they were"
            } else {
                "each packet is counted"
            },
        ),
        ("program", "no XDP program"),
        ("connections", "--exempt established,control"),
    ] {
        expect(&diagnosis, check, &["ok", word]);
    }
}

#[test]
fn doctor_prints_one_line_per_finding() {
    need_kernel!();
    let hosts = Hosts::new();
    let findings = diagnose(&hosts, "lo", 0)["findings"].clone();
    let text = hosts.limiter(&["doctor", "lo"]);
    text.expect(0);
    assert_eq!(text.stderr, "");
    let lines: Vec<_> = text.stdout.lines().collect();
    let findings = findings.as_array().unwrap();
    assert_eq!(lines.len(), findings.len() + 1, "{text:#?}");
    for (line, finding) in lines.iter().zip(findings) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), finding["level"].as_str());
        assert_eq!(words.next(), finding["check"].as_str());
        assert!(line.contains(finding["found"].as_str().unwrap()), "{line}");
        assert!(line.contains(finding["advice"].as_str().unwrap_or("")));
    }
    assert_eq!(
        lines.last(),
        Some(&"lo: expect generic mode from `limiter attach lo`")
    );
}

#[test]
fn doctor_reports_an_unknown_interface() {
    need_kernel!();
    let hosts = Hosts::new();
    let diagnosis = diagnose(&hosts, "eth9", 1);
    assert_eq!(diagnosis["mode"], "unknown");
    expect(&diagnosis, "interface", &["problem", "'eth9'", "ip link"]);
    let text = hosts.limiter(&["doctor", "eth9"]);
    let error = "limiter: eth9: a problem for attach: no interface 'eth9' in this network namespace: `ip link` lists the interfaces\n";
    assert_eq!(text.stderr, error);
    hosts.limiter(&["doctor"]).expect_error(2, &["IFACE"]);
}

#[test]
fn doctor_predicts_the_mode_of_attach() {
    need_kernel!();
    let hosts = Hosts::new();
    let mut agreed = Vec::new();
    for (name, made_by, mode) in [
        ("eth0", "", on_veth("native")),
        ("lo", "", "generic"),
        ("br0", "link add br0 type bridge", "generic"),
        ("ifb0:out", "link add ifb0 type ifb", "tc"),
        ("dummy0", "link add dummy0 type dummy", "generic"),
        (
            "vx0",
            "link add vx0 type vxlan id 7 dstport 4789 dev eth0",
            "generic",
        ),
        ("mv0", "link add mv0 link eth0 type macvlan", "generic"),
        (
            "eth0.7",
            "link add eth0.7 link eth0 type vlan id 7",
            "generic",
        ),
        ("tap0", "tuntap add dev tap0 mode tap", on_veth("native")),
        // This driver takes frames only in one buffer, but does not report a maximum length.
        ("tap1", "tuntap add dev tap1 mode tap", on_veth("unknown")),
        // The interface has more transmit queues than its peer has receive queues.
        (
            "v2",
            "link add v1 numtxqueues 4 numrxqueues 4 type veth peer name v2",
            on_veth("generic"),
        ),
        (
            "jumbo",
            "link add jumbo mtu 9000 type veth peer name far mtu 9000",
            on_veth("native"),
        ),
    ] {
        if mode == "tc" && !need::tcx() {
            continue;
        }
        if !made_by.is_empty() && !ip(&hosts, made_by) {
            eprintln!("this kernel cannot: ip {made_by}");
            continue;
        }
        let device = name.trim_end_matches(":out");
        assert!(ip(&hosts, &format!("link set {device} up")));
        if name == "tap1" {
            assert!(ip(&hosts, &format!("link set {name} mtu 9000")));
        }
        let before = diagnose(&hosts, name, 0);
        assert_eq!(before["mode"], mode, "{before:#}");
        let attach = ["attach", name, "--rate", "5", "--mode", "auto"];
        hosts.limiter(&attach).expect(0);
        let status = hosts.json(&["status", name, "--json"]);
        let used = &status["interfaces"][0]["mode"];
        if mode != "unknown" {
            assert_eq!(used, mode, "{name}: {before:#}");
        }
        let while_attached = diagnose(&hosts, name, 0);
        assert_eq!(&while_attached["mode"], used);
        expect(&while_attached, "program", &["ok", "limiter is attached"]);
        hosts.limiter(&["detach", name]).expect(0);
        agreed.push(name);
    }
    for always in ["eth0", "lo", "v2", "jumbo"] {
        assert!(agreed.contains(&always), "{always} was not checked");
    }
}

#[test]
fn doctor_predicts_the_hook_of_a_tun_device() {
    need_kernel!();
    let hosts = Hosts::new();
    if !ip(&hosts, "tuntap add dev tun0 mode tun") {
        eprintln!("this kernel has no tun");
        return;
    }
    let attach = |mode: &str| hosts.limiter(&["attach", "tun0", "--rate", "5", "--mode", mode]);
    for mode in ["native", "generic", "xdp"] {
        attach(mode).expect_error(1, &["'tun0'", "Ethernet header", "--hook tc"]);
    }
    if need::tcx() {
        let diagnosis = diagnose(&hosts, "tun0", 0);
        expect(&diagnosis, "frames", &["ok", "mode tc"]);
        assert_eq!(diagnosis["mode"], "tc");
        attach("auto").expect(0);
        assert_eq!(
            hosts.json("status tun0 --json")["interfaces"][0]["mode"],
            "tc"
        );
        return;
    }
    let diagnosis = diagnose(&hosts, "tun0", 1);
    expect(&diagnosis, "frames", &["problem", "Ethernet header"]);
    let text = hosts.limiter(&["doctor", "tun0"]).stdout;
    let last = text.lines().last();
    assert_eq!(last, Some("tun0: expect `limiter attach tun0` to fail"));
    for mode in ["auto", "tc"] {
        attach(mode).expect_error(1, &["Ethernet header", "Linux 6.6"]);
    }
    assert_eq!(
        hosts.json(&["status", "--json"])["interfaces"],
        serde_json::json!([])
    );
}

#[test]
fn doctor_changes_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    let links = || {
        let links = || {
            let links = Command::new("ip").args(["-d", "link"]).output().unwrap();
            String::from_utf8(links.stdout).unwrap()
        };
        hosts.server.namespace.run(links).unwrap()
    };
    // The kernel reports a carrier some time after the link is up.
    eventually("eth0 has a carrier", || links().contains("state UP"));
    let picture = || {
        let links = links();
        assert!(links.contains("eth0"), "{links}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own_mounts = mounts.lines().filter(|line| line.contains("bpf")).count();
        (links, own_mounts, hosts.pins().exists())
    };
    let before = picture();
    for interface in ["eth0", "lo", "eth9"] {
        let _ = hosts.limiter(&["doctor", interface]);
        let _ = hosts.limiter(&["doctor", interface, "--json"]);
    }
    assert_eq!(picture(), before);
    assert!(!before.2);

    let attach = ["attach", "eth0", "--rate", "5", "--mode", "xdp"];
    hosts.limiter(&attach).expect(0);
    let (link, status) = (picture(), hosts.status());
    diagnose(&hosts, "eth0", 0);
    assert_eq!((picture(), hosts.status()), (link, status));
}
