//! `set` changes one limit of several or the new-source limit, and refuses invalid changes.

use limiter_tests::{command::ip, hosts::Hosts, need_kernel, number, traffic::Traffic};

const TWO: &str = r#"
interfaces = ["eth0"]
new_sources = "1k/s"
new_sources_burst = 40

[[limit]]
name = "web"
match = { protocol = "udp", destination_port = 80 }
rate = "1/h"
burst = 5

[[limit]]
name = "all"
rate = "1/h"
burst = 20
"#;

fn attached() -> Hosts {
    let hosts = Hosts::new();
    hosts.attach_file(TWO);
    hosts
}

/// Runs `limiter set eth0`. Returns its output.
fn set(hosts: &Hosts, options: &str) -> String {
    hosts.run(&format!("set eth0 {options}"))
}

/// The attachment keeps the phase of the slow limit, up to an hour, which must not affect the fast one.
#[test]
fn set_changes_a_rate_from_slow_to_fast_and_back() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    for rate in ["1M/s", "1/d", "1/s", "1/h"] {
        let done = set(&hosts, &format!("--rate {rate}"));
        assert!(done.contains(&format!("-> {rate}")), "{done:?}");
    }
}

#[test]
fn set_changes_one_limit_of_several() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 5);
    let done = set(&hosts, "--limit web --burst 7");
    assert_eq!(done, "eth0: web: burst 5 -> 7\n");
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 2, "burst +2");

    let done = set(&hosts, "--limit web --shadow on");
    assert_eq!(done, "eth0: web: shadow off -> on\n");
    assert_eq!(hosts.status()["shadow"], false, "not the interface");
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 8);
    let status = hosts.status();
    assert_eq!(status["limits"][0]["would_drop"]["packets"], 8, "{status}");
    // Port 80 took 15 of the 20 tokens.
    assert_eq!(traffic.passed("192.0.2.2", 9), 5);

    let listed = "web, all";
    let several = &["several limits", listed, "--limit web"][..];
    for (options, status, words) in [
        ("--rate 6", 1, several),
        ("--burst 6", 1, several),
        ("--limit wep --rate 6", 1, &["no limit 'wep'", listed]),
        ("--limit control --rate 6", 1, &["built in", "[control]"]),
        ("--limit web", 2, &["--rate"]),
        ("--limit web --burst 64kb", 1, &["packets"]),
    ] {
        let refused = hosts.limiter(&format!("set eth0 {options}"));
        refused.expect_error(status, words);
    }
    assert_eq!(hosts.status()["limits"][1]["burst"], "20");
}

/// The burst stays unless it is given.
#[test]
fn set_changes_the_new_source_limit() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    let network_of = |network: u8| {
        let sources = 0..60;
        let passed = sources.map(|host| traffic.passed(&format!("10.0.{network}.{host}"), 1));
        passed.sum::<u64>()
    };
    let shown = || hosts.run("config show eth0");
    assert_eq!(
        set(&hosts, "--new-sources 1/h"),
        "eth0: new sources: rate 1k/s -> 1/h\n"
    );
    assert!(shown().contains("new_sources = \"1/h\"\nnew_sources_burst = 40\n"));
    // Both limits share seven eighths of the burst, and each has a sixteenth of its own: 35 and 2 tokens.
    assert_eq!(
        network_of(1),
        37,
        "the burst, without the part of the other limit"
    );
    assert_eq!(network_of(2), 0);
    assert_eq!(
        number(&hosts.status()["drops"]["new_source"]["packets"]),
        83
    );
    let status = hosts.run("status eth0");
    assert!(status.contains("came faster than 1/h"), "{status}");
    assert_eq!(traffic.passed("10.0.1.0", 1), 1, "a known source");

    assert_eq!(
        set(&hosts, "--new-sources none"),
        "eth0: limit new sources gone\n"
    );
    assert_eq!(network_of(3), 60);
    set(&hosts, "--new-sources 2/h");
    assert!(shown().contains("new_sources = \"2/h\"\n"));
    hosts
        .limiter("set eth0 --new-sources 10mbit")
        .expect_error(1, &["in bits"]);
}

/// It shows drops, match and shadow mode.
#[test]
fn status_shows_each_limit_separately() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 5);
    hosts.run("set eth0 --limit all --shadow on");
    let status = hosts.limiter("status eth0").stdout;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let limits: Vec<_> = status
        .lines()
        .skip_while(|line| !line.contains("LIMIT"))
        .map(words)
        .collect();
    assert_eq!(
        limits,
        [
            "LIMIT RATE BURST PER PASSED DROPPED",
            "web 1/h 5 /32,/64 5 3",
            "match { protocol = \"udp\", destination_port = 80 }",
            "all 1/h 20 /32,/64 5 0",
            "shadow: drops nothing"
        ]
    );
    let status = hosts.status();
    let web = &status["limits"][0];
    assert_eq!(
        web["match"], "{ protocol = \"udp\", destination_port = 80 }",
        "{status}"
    );
    assert!(web["cost"].is_null(), "{status}");
    assert!(status["limits"][1]["match"].is_null(), "{status}");
}

#[test]
fn status_shows_packets_that_passed_uncharged() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[lists]\nallow = [\"192.0.2.9\"]\n[[limit]]\nname = \"web\"\n\
         match = { protocol = \"udp\", destination_port = 80 }\nrate = \"1/h\"\nburst = 5\n",
    );
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 2), 2);
    assert_eq!(traffic.passed_to(81, "192.0.2.2", 3), 3);
    assert_eq!(traffic.passed_to(80, "192.0.2.9", 4), 4);
    let status = hosts.limiter("status eth0").stdout;
    assert!(
        status.contains("  passes   4 allowed, 3 matched no limit"),
        "{status}"
    );
    assert_eq!(
        hosts.status()["passes"]["unlimited"]["packets"],
        3,
        "{status}"
    );
}

#[test]
fn set_without_limits_is_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file("interfaces = [\"eth0\"]\n[lists]\ndeny = [\"203.0.113.0/24\"]\n");
    let refused = hosts.limiter("set eth0 --rate 6 --limit web");
    refused.expect_error(1, &["there is no limit to change", "[[limit]]"]);
}

fn set_mtu(hosts: &Hosts, mtu: u32) {
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, &format!("link set eth0 mtu {mtu}"));
    }
}

/// The MTU is raised after `attach`. A change of other settings must stay possible.
#[test]
fn raised_mtu_is_said_and_bursts_below_it_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    let never = "never admit a frame of 9022 bytes";
    hosts.run("attach eth0 --rate 8kbit --burst 2000b");
    let limit = |key: &str| hosts.status()["limits"][0][key].clone();
    assert!(limit("never_admits").is_null());
    set_mtu(&hosts, 9_000);
    let said = limit("never_admits");
    assert!(said.as_str().unwrap().contains(never), "{said}");
    for command in ["status eth0", "doctor eth0"] {
        let said = hosts.limiter(command).stdout;
        assert!(said.contains(never), "{command}: {said}");
    }
    for options in ["--rate 16kbit", "--burst 9021b"] {
        let refused = hosts.limiter(&format!("set eth0 {options}"));
        refused.expect(1);
        assert!(refused.stderr.contains(never), "{refused:#?}");
    }
    assert_eq!(limit("rate"), "8kbit");
    hosts.run("deny add eth0 203.0.113.0/24");
    hosts.run("set eth0 --shadow on");
    assert!(
        limit("never_admits").is_string(),
        "nothing helps but a burst"
    );
    let done = set(&hosts, "--burst 9022b");
    let lines = "eth0: burst 2000b -> 9022b\neth0: longest frame 1522 -> 9022 bytes\n";
    assert_eq!(done, lines);
    assert!(limit("never_admits").is_null());
    set_mtu(&hosts, 1_500);
    let done = set(&hosts, "--burst 2000b");
    assert!(done.contains("longest frame 9022 -> 1522 bytes"), "{done}");
}

/// The default burst is at least the longest frame of the last change.
#[test]
fn default_burst_follows_the_mtu_at_the_next_change() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 8kbit");
    let limit = || hosts.status()["limits"][0].clone();
    set_mtu(&hosts, 9_000);
    assert_eq!(limit()["burst"], "1522b");
    assert!(limit()["never_admits"].is_string());
    set(&hosts, "--shadow on");
    assert_eq!(limit()["burst"], "9022b");
    assert!(limit()["never_admits"].is_null());
}

#[test]
fn bursts_that_slow_tcp_are_said_once() {
    need_kernel!();
    let hosts = Hosts::new();
    let warned = |command: &str| {
        let done = hosts.limiter(command);
        done.expect(0);
        done.stderr
            .contains("a TCP connection gets about 80kbit of 10mbit")
    };
    assert!(warned("attach eth0 --rate 10mbit --burst 2000b"));
    assert!(!warned("set eth0 --shadow on"), "another setting");
    assert!(!warned("set eth0 --burst 250000b"));
    assert!(warned("set eth0 --burst 2000b"));
    let doctor = hosts.limiter("doctor eth0").stdout;
    assert!(doctor.contains("a TCP connection gets"), "{doctor}");
}

#[test]
fn default_burst_is_shown_and_follows_the_period() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = hosts.limiter("attach eth0 --rate 6/30s");
    attach.expect(0);
    assert!(
        attach.stdout.contains("default  6/30s  6      /32,/64"),
        "{attach:#?}"
    );
    let changed = "6/30s now means up to 6 packets at once, the amount of the period. In earlier builds of limiter, it meant 1";
    assert!(attach.stderr.contains(changed), "{attach:#?}");
    // Everything about it is in one warning, with the option to type.
    assert_eq!(attach.stderr.lines().count(), 1, "{attach:#?}");
    hosts.run("detach eth0");
    let attach = hosts.limiter("attach eth0 --rate 5/m");
    assert_eq!(attach.stderr.lines().count(), 1, "{attach:#?}");
    for words in [
        "`limiter set eth0 --new-sources 5k/s`",
        "5/m now means up to 5 packets at once",
    ] {
        assert!(attach.stderr.contains(words), "'{words}': {attach:#?}");
    }
    hosts.run("detach eth0");
    let attach = hosts.limiter("attach eth0 --rate 5/m --new-sources 5k/s --burst 5");
    assert_eq!(attach.stderr, "", "{attach:#?}");
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 6/30s");
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.7", 8), 6);
    let done = set(&hosts, "--rate 300/m");
    assert_eq!(
        done,
        "eth0: rate 6/30s -> 300/m\neth0: burst 6 by the rate -> 300 by the rate\n"
    );
    let shown = hosts.run("config show eth0");
    assert!(
        shown.contains("rate = \"300/m\"") && !shown.contains("burst"),
        "{shown}"
    );
}
