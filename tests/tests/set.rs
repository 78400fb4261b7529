//! `set`: one limit of several, new sources, and what it refuses.

use limiter_tests::{files::Folder, hosts::Hosts, need_kernel, number, traffic::Traffic};

const TWO: &str = r#"
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
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", TWO);
    hosts
        .limiter(&["attach", "eth0", "--config", &file])
        .expect(0);
    hosts
}

/// What an attachment keeps of a slow limit (its phase, up to an hour) is no obstacle to a quick one.
#[test]
fn from_slow_to_quick_and_back() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts
        .limiter(&["attach", "eth0", "--rate", "1/h", "--burst", "3"])
        .expect(0);
    for rate in ["1M/s", "1/d", "1/s", "1/h"] {
        let done = hosts.limiter(&["set", "eth0", "--rate", rate]);
        done.expect(0);
        assert!(done.stdout.contains(&format!("-> {rate}")), "{done:?}");
    }
}

#[test]
fn one_limit_of_several() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 5);
    let set = |arguments: &[&str]| hosts.limiter(&[&["set", "eth0"], arguments].concat());
    let done = set(&["--limit", "web", "--burst", "7"]);
    done.expect(0);
    assert_eq!(done.stdout, "eth0: web: burst 5 -> 7\n");
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 2, "two more fit");

    let done = set(&["--limit", "web", "--shadow", "on"]);
    done.expect(0);
    assert_eq!(done.stdout, "eth0: web: shadow off -> on\n");
    let status = hosts.status();
    assert_eq!(status["shadow"], false, "not the interface: {status}");
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 8);
    let status = hosts.status();
    assert_eq!(status["limits"][0]["would_drop"]["packets"], 8, "{status}");
    assert_eq!(
        traffic.passed("192.0.2.2", 9),
        5,
        "20, less the 15 that were to port 80 and passed"
    );

    for arguments in [
        &["--rate", "6"][..],
        &["--burst", "6"],
        &["--rate", "6", "--shadow", "on"],
    ] {
        set(arguments).expect_error(1, &["several limits (web, all)", "--limit NAME"]);
    }
    set(&["--limit", "wep", "--rate", "6"])
        .expect_error(1, &["no limit 'wep'", "write one of web, all"]);
    set(&["--limit", "control", "--rate", "6"]).expect_error(1, &["built in", "--exempt control"]);
    set(&["--limit", "web"]).expect_error(2, &["--rate"]);
    set(&["--limit", "web", "--burst", "64kb"]).expect_error(1, &["packets"]);
    assert_eq!(hosts.status()["limits"][1]["burst"], "20");
}

/// New sources are taken in at the new rate, and at once as many as before unless told otherwise.
#[test]
fn new_sources() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    let of = |network: u8| {
        let sources = 0..60;
        let passed = sources.map(|host| traffic.passed(&format!("10.0.{network}.{host}"), 1));
        passed.sum::<u64>()
    };
    let shown = || hosts.limiter(&["config", "show", "eth0"]).stdout;
    let set = |arguments: &[&str]| {
        let done = hosts.limiter(&[&["set", "eth0"], arguments].concat());
        done.expect(0);
        done.stdout
    };
    assert_eq!(
        set(&["--new-sources", "1/h"]),
        "eth0: new sources 1k/s burst 40 -> 1/h burst 40\n"
    );
    assert!(shown().contains("new_sources = \"1/h\"\nnew_sources_burst = 40\n"));
    // Seven eighths of the burst are for both limits, and a sixteenth is for this one alone: 35 and 2.
    assert_eq!(of(1), 37, "the burst, without the part of the other limit");
    assert_eq!(of(2), 0);
    assert_eq!(number(&hosts.status()["drops"]["newcomer"]), 83);
    let status = hosts.limiter(&["status", "eth0"]).stdout;
    for word in [
        "came faster than 1/h",
        "limiter set eth0 --new-sources",
        "--max-sources",
    ] {
        assert!(status.contains(word), "wanted '{word}': {status}");
    }
    assert_eq!(traffic.passed("10.0.1.0", 1), 1, "known sources are");

    assert_eq!(
        set(&["--new-sources", "none"]),
        "eth0: new sources 1/h burst 40 -> none\n"
    );
    assert_eq!(of(3), 60);
    hosts
        .limiter(&["set", "eth0", "--new-sources-burst", "5"])
        .expect_error(1, &["--new-sources RATE"]);
    set(&["--new-sources", "2/h", "--new-sources-burst", "50"]);
    assert!(shown().contains("new_sources = \"2/h\"\nnew_sources_burst = 50\n"));
    set(&["--new-sources-burst", "60"]);
    assert!(shown().contains("new_sources = \"2/h\"\nnew_sources_burst = 60\n"));
    hosts
        .limiter(&["set", "eth0", "--new-sources", "10mbit"])
        .expect_error(1, &["in bits"]);
    hosts
        .limiter(&["set", "eth0", "--new-sources", "5/x"])
        .expect_error(2, &["period"]);
}

#[test]
fn what_is_so_already() {
    need_kernel!();
    let hosts = attached();
    let same = hosts.limiter(&["set", "eth0", "--limit", "web", "--rate", "1/h"]);
    same.expect(0);
    assert_eq!(same.stdout, "eth0: unchanged: it was so already\n");
}

/// Which limit drops, what it holds, and that one of them drops nothing.
#[test]
fn status_tells_limits_apart() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed_to(80, "192.0.2.2", 8), 5);
    hosts
        .limiter(&["set", "eth0", "--limit", "all", "--shadow", "on"])
        .expect(0);
    let status = hosts.limiter(&["status", "eth0"]).stdout;
    let limits = "  limit    web: 1/h, burst 5, per /32,/64
           match { protocol = \"udp\", destination_port = 80 }
           5 passed, 3 dropped
  limit    all: 1/h, burst 20, per /32,/64, shadow: drops nothing
";
    assert!(status.contains(limits), "{status}");
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
fn where_there_are_only_lists_there_is_no_limit_to_change() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", "[lists]\ndeny = [\"203.0.113.0/24\"]\n");
    hosts
        .limiter(&["attach", "eth0", "--config", &file])
        .expect(0);
    for arguments in [&["--rate", "6"][..], &["--rate", "6", "--limit", "web"]] {
        hosts
            .limiter(&[&["set", "eth0"], arguments].concat())
            .expect_error(1, &["there is no limit to change", "[[limit]]"]);
    }
}
