//! Drops of each denied prefix are counted, and `check` and `top` show them.
//!
//! The counts are exact up to 1,024 and close after that, on any number of CPUs and across changes.

use std::{sync::Barrier, thread};

use aya::maps::{LpmTrie, lpm_trie::Key};
use limiter_common::{
    abi::{CLOCK_KERNEL, Listed},
    policy::denied::{EXACT, STEP},
};
use limiter_tests::{
    cpus::{alone, pin_to},
    engine::Kernel,
    files::Folder,
    hosts::Hosts,
    need_kernel, number,
    packet::Frame,
    settings,
    test_run::test_run,
    traffic::Traffic,
};
use limiter_user::kernel::program::raw::Raw as Plain;
use serde_json::Value;

/// A tier within a denied prefix has an entry of its own in the list maps.
const LISTS: &str = r#"
[lists]
deny = ["198.51.100.0/24", "203.0.113.66", "2001:db8:bad::/48"]
own = ["198.51.100.128/25"]

[[limit]]
name = "source"
match = { unless = ["own"] }
rate = "1/h"
burst = 1
"#;

fn attached(folder: &Folder) -> Hosts {
    let hosts = Hosts::new();
    let file = folder.write("limiter.toml", LISTS);
    hosts.run(&format!("attach eth0 --config {file}"));
    hosts
}

/// Number of drops by the denied prefix of `source`, from `check`.
fn dropped(hosts: &Hosts, source: &str) -> u64 {
    let check = hosts.json(&["check", "eth0", source, "--json"]);
    let lists = check["lists"].as_array().unwrap().iter();
    let mut of_deny = lists.filter(|list| list["list"] == "deny");
    let of_deny = of_deny.next();
    number(&of_deny.unwrap_or_else(|| panic!("{check}"))["dropped_packets"])
}

fn top(hosts: &Hosts, interval: &str) -> Value {
    hosts.json(&["top", "eth0", "--once", "--json", "--interval", interval])
}

/// Prefixes and their drops, in the order of `top`.
fn denied(top: &Value) -> Vec<(String, u64)> {
    let denied = top["denied"].as_array().unwrap().iter();
    denied
        .map(|line| {
            let prefix = line["prefix"].as_str().unwrap().to_owned();
            (prefix, number(&line["dropped_packets"]))
        })
        .collect()
}

/// The drops of all lines.
fn of_all_lines(top: &Value) -> u64 {
    let lines = ["sources", "denied", "other_drops"].map(|lines| top[lines].as_array().unwrap());
    let lines = lines.into_iter().flatten();
    lines.map(|line| number(&line["dropped_packets"])).sum()
}

#[test]
fn few_drops_are_counted_exactly_per_prefix() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    let traffic = Traffic::new(&hosts);
    let sent = [
        ("198.51.100.1", 300),
        ("198.51.100.2", 400),
        ("198.51.100.200", 324),
        ("203.0.113.66", 37),
        ("2001:db8:bad::7", EXACT),
    ];
    for (source, count) in sent {
        assert_eq!(traffic.passed(source, count), 0, "{source}");
    }
    assert_eq!(traffic.passed("192.0.2.2", 5), 1, "not denied");
    for (source, wanted) in [
        ("198.51.100.9", 1_024),
        ("198.51.100.199", 1_024),
        ("203.0.113.66", 37),
        ("2001:db8:bad::1", EXACT),
    ] {
        assert_eq!(dropped(&hosts, source), wanted, "{source}");
    }
    let text = hosts.limiter("check eth0 203.0.113.66").stdout;
    assert!(text.contains("37 dropped by it"), "{text}");

    let top = top(&hosts, "100ms");
    let wanted = [
        ("198.51.100.0/24", 1_024),
        ("2001:db8:bad::/48", EXACT),
        ("203.0.113.66", 37),
    ];
    let wanted = wanted.map(|(prefix, dropped)| (prefix.to_owned(), dropped));
    assert_eq!(denied(&top), wanted);
    assert_eq!(
        of_all_lines(&top),
        number(&top["dropped"]["packets"]),
        "{top}"
    );
}

#[test]
fn deny_drops_are_not_counted_in_shadow() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("203.0.113.66", 5), 0);
    hosts.run("set eth0 --shadow on");
    assert_eq!(traffic.passed("203.0.113.66", 7), 7);
    assert_eq!(dropped(&hosts, "203.0.113.66"), 5);
}

/// Edits and reloads fill new maps. An unchanged list keeps its maps.
#[test]
fn drop_counts_of_remaining_prefixes_survive_changes() {
    need_kernel!();
    let folder = Folder::new();
    let hosts = attached(&folder);
    let traffic = Traffic::new(&hosts);
    let mut sent = 0;
    let mut check = |what: &str| {
        for source in ["203.0.113.66", "198.51.100.200", "2001:db8:bad::7"] {
            assert_eq!(dropped(&hosts, source), sent, "{source} after {what}");
            assert_eq!(traffic.passed(source, 10), 0, "{source} after {what}");
        }
        sent += 10;
    };
    check("attach");
    hosts.run("deny add eth0 192.0.2.9");
    check("another prefix is denied");
    hosts.run("tier remove eth0 own 198.51.100.128/25");
    check("the tier within it is gone");
    hosts.run("set eth0 --rate 2/h");
    check("a change of the limit");
    let changed = LISTS.replace("deny = [", "deny = [\"192.0.2.10\", ");
    let file = folder.write("limiter.toml", &changed);
    hosts.run(&format!("reload eth0 --config {file}"));
    check("a reload");

    hosts.run("deny remove eth0 203.0.113.66");
    hosts.run("deny add eth0 203.0.113.66");
    assert_eq!(dropped(&hosts, "203.0.113.66"), 0, "added again");
}

#[test]
fn many_drops_on_two_cpus_are_counted_within_one_step_per_cpu() {
    need_kernel!();
    let _alone = alone();
    const PACKETS: u32 = 200_003;
    let settings = settings(LISTS);
    let mut kernel = Kernel::with_clock(&settings, CLOCK_KERNEL);
    let cpus = thread::available_parallelism().unwrap().get().min(2);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for cpu in 0..2 {
            let (kernel, barrier) = (&kernel, &barrier);
            scope.spawn(move || {
                pin_to(cpu % cpus);
                let mut packet = Frame::from([203, 0, 113, 66].into()).bytes();
                barrier.wait();
                let program = kernel.program.fd().unwrap();
                let run = test_run(program, &mut packet, 0, PACKETS).unwrap();
                assert_eq!(run.action, 1, "XDP_DROP");
            });
        }
    });
    let map = kernel.program.map_mut("LISTED_IPV4").unwrap();
    let listed: LpmTrie<_, [u8; 8], Plain<Listed>> = map.try_into().unwrap();
    let key = Key::new(32, [203, 0, 113, 66, 0, 0, 0, 0]);
    let Plain(Listed { dropped, .. }) = listed.get(&key, 0).unwrap();
    let sent = 2 * u64::from(PACKETS);
    assert!(dropped.abs_diff(sent) <= 2 * STEP, "{dropped} of {sent}");
    assert!(dropped > EXACT + STEP, "no change was counted");
}
