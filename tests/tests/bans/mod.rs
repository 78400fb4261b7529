//! Bans: from the command on, no packet of a banned source passes until the ban ends, whatever else changes.

mod allowed;
mod drops;
mod kept;
mod origins;

use std::{
    net::{IpAddr, Ipv4Addr},
    thread::sleep,
    time::{Duration, Instant},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_kernel::{Attachment, program::bans, sys::clock};
use limiter_tests::{
    effort::repetitions,
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts, SERVER, on},
    need, need_kernel, number,
    traffic::{Traffic, udp},
};
use serde_json::Value;

/// One limit for everything: the fast path.
const FAST: &str = "attach eth0 --rate 1000000 --burst 1000000";
/// A file for the full path, with lists.
const FULL: &str = "interfaces = [\"eth0\"]\n[lists]\nallow = [\"10.1.0.0/16\", \"2001:db8:1::/48\"]\n\
     [[limit]]\nname = \"one\"\nrate = \"1M/s\"\nmatch = { protocol = \"udp\" }\n";

/// Number of bans, from `status`.
fn count(hosts: &Hosts) -> u64 {
    let by_origin = &hosts.status()["bans"]["by_origin"];
    by_origin.as_object().unwrap().values().map(number).sum()
}

fn reason(hosts: &Hosts, reason: &str) -> u64 {
    number(&hosts.status()["drops"][reason]["packets"])
}

/// Packets that the ban of `source` has dropped, from `check`.
fn dropped(hosts: &Hosts, source: &str) -> u64 {
    let check = hosts.json(&["check", "eth0", source, "--json"]);
    assert_eq!(check["listed"], "ban", "{check}");
    number(&check["ban"]["dropped_packets"])
}

fn is_banned(hosts: &Hosts, source: &str) -> bool {
    Traffic::new(hosts).passed(source, 3) == 0
}

fn every_way() -> Vec<(&'static str, Hosts)> {
    let hosts = || Hosts::new();
    let mut ways = vec![("fast", hosts()), ("full", hosts())];
    ways[0].1.run(FAST);
    ways[1].1.attach_file(FULL);
    if need::tcx() {
        let [fast, full] = [hosts(), hosts()];
        fast.run(&format!("{FAST} --hook tc"));
        full.attach_file(&format!("mode = \"tc\"\n{FULL}"));
        ways.extend([("fast, tc", fast), ("full, tc", full)]);
    }
    ways
}

#[test]
fn banned_source_is_dropped_from_the_command_on_until_the_ban_is_removed() {
    need_kernel!();
    for (way, hosts) in every_way() {
        let traffic = Traffic::new(&hosts);
        for (ban, source, other) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("198.51.100.0/24", "198.51.100.7", "198.51.101.7"),
            ("2001:db8::7", "2001:db8::7", "2001:db8::8"),
            ("2001:db8:2::/48", "2001:db8:2::7", "2001:db8:3::7"),
        ] {
            let drops = reason(&hosts, "ban");
            assert_eq!(traffic.passed(source, 3), 3, "{way}, {ban}");
            let said = hosts.run(&format!("ban eth0 {ban} --reason test"));
            assert_eq!(said, format!("eth0: {ban} banned without end\n"));
            assert_eq!(traffic.passed(source, 20), 0, "{way}, {ban}");
            assert_eq!(traffic.passed(other, 3), 3, "{way}, {ban}");
            assert_eq!(reason(&hosts, "ban"), drops + 20, "{way}, {ban}");
            assert_eq!(dropped(&hosts, source), 20, "{way}, {ban}");
            let said = hosts.run(&format!("unban eth0 {ban}"));
            assert_eq!(said, format!("eth0: {ban} unbanned\n"));
            assert_eq!(traffic.passed(source, 3), 3, "{way}, {ban}");
        }
        assert_eq!(count(&hosts), 0, "{way}");
        let status = hosts.status();
        let packets = |verdict: &str| number(&status[verdict]["packets"]);
        assert_eq!(
            packets("seen"),
            packets("passed") + packets("dropped"),
            "{way}"
        );
    }
}

#[test]
fn ban_of_outgoing_packets_is_a_ban_of_destinations() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let hosts = Hosts::new();
    hosts.run("attach eth0 --direction out --rate 1M --burst 1M");
    let send = || {
        on(&hosts.server, || {
            let socket = std::net::UdpSocket::bind((SERVER, 0)).unwrap();
            socket.send_to(&[0; 10], (CLIENT, 9)).unwrap();
        });
        let status = hosts.json("status eth0:out --json");
        number(&status["interfaces"][0]["drops"]["ban"]["packets"])
    };
    assert_eq!(send(), 0);
    hosts.run(&format!("ban eth0:out {CLIENT}"));
    assert_eq!(send(), 1);
    hosts.run(&format!("unban eth0:out {CLIENT}"));
    assert_eq!(send(), 1);
}

#[test]
fn renewal_without_a_reason_keeps_the_reason_of_its_origin() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M --burst 1M");
    hosts.run("ban eth0 192.0.2.7 --for 1h --reason scanner");
    hosts.run("ban eth0 192.0.2.7 --for 1h --reason jail --origin other");
    hosts.run("ban eth0 192.0.2.7 192.0.2.8");
    let reason = |origin: &str| {
        let bans = hosts.json(&format!("bans eth0 --origin {origin} --json"));
        let bans = bans["bans"].as_array().unwrap().clone();
        let reasons = bans
            .iter()
            .map(|ban| ban["reason"].as_str().unwrap().to_owned());
        reasons.collect::<Vec<_>>()
    };
    assert_eq!(reason("hand"), ["scanner", ""]);
    assert_eq!(reason("other"), ["jail"]);
    hosts.run("ban eth0 192.0.2.7 --reason flood");
    assert_eq!(reason("hand"), ["flood", ""]);
}

#[test]
fn ban_ends_by_itself_at_its_time_and_a_repeated_one_renews_it() {
    need_kernel!();
    for (way, hosts) in every_way() {
        let started = Instant::now();
        hosts.run("ban eth0 192.0.2.7 198.51.100.0/24 2001:db8:2::/48 --for 3s");
        let made = Instant::now();
        hosts.run("ban eth0 192.0.2.8 --for 1s");
        assert_eq!(
            hosts.run("ban eth0 192.0.2.8 --for 1h"),
            "eth0: 192.0.2.8 banned for 1h, renewed\n"
        );
        let sources = ["192.0.2.7", "198.51.100.7", "2001:db8:2::7"];
        let banned = sources.map(|source| is_banned(&hosts, source));
        if started.elapsed() < Duration::from_secs(3) {
            assert_eq!(banned, [true; 3], "{way}");
        }
        sleep(Duration::from_millis(3_050).saturating_sub(made.elapsed()));
        let banned = sources.map(|source| is_banned(&hosts, source));
        assert_eq!(banned, [false; 3], "{way}");
        assert!(is_banned(&hosts, "192.0.2.8"), "{way}: renewed");
        assert_eq!(
            count(&hosts),
            1,
            "{way}: bans that have ended are not shown"
        );
        let bans = hosts.json("bans eth0 --json");
        assert_eq!(bans["bans"].as_array().unwrap().len(), 1, "{way}: {bans}");
    }
}

/// The program finds the longest prefix first.
#[test]
fn ban_that_has_ended_does_not_hide_one_around_it() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    for ban in [
        "10.0.0.0/8",
        "10.1.0.0/16 --for 1s",
        "10.1.2.0/24 --for 1s",
        "10.1.2.3 --for 1s",
    ] {
        hosts.run(&format!("ban eth0 {ban}"));
    }
    sleep(Duration::from_millis(1_050));
    assert!(is_banned(&hosts, "10.1.2.3"));
    let check = hosts.json("check eth0 10.1.2.3 --json");
    assert_eq!(check["ban"]["prefix"], "10.0.0.0/8", "{check}");
    hosts.run("unban eth0 10.0.0.0/8");
    assert!(!is_banned(&hosts, "10.1.2.3"));
}

#[test]
fn bans_are_kept_by_every_change_of_the_settings() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run(FAST);
    hosts.run("ban eth0 192.0.2.7 --for 1h");
    hosts.run("ban eth0 198.51.100.0/24");
    let expect = |expected: &str| {
        for source in ["192.0.2.7", "198.51.100.7"] {
            assert!(is_banned(&hosts, source), "{source} after {expected}");
        }
        assert!(!is_banned(&hosts, "192.0.2.8"), "{expected}");
    };
    let file = folder.write("limiter.toml", at_driver(FULL));
    for change in [
        "set eth0 --burst 900k".to_owned(),
        "allow add eth0 203.0.113.7".to_owned(),
        format!("reload eth0 --config {file}"),
        format!("{FAST} --or-reload"),
        "set eth0 --burst 800k --try 2s".to_owned(),
    ] {
        hosts.run(&change);
        expect(&change);
    }
    limiter_tests::eventually("the trial is over", || {
        !hosts.status()["trial_ended"].is_null()
    });
    expect("the end of the trial");
    hosts.run("detach eth0");
    hosts.run(FAST);
    assert_eq!(count(&hosts), 0, "detach removes bans");
    assert!(!is_banned(&hosts, "192.0.2.7"));
}

#[test]
fn full_maps_refuse_all_prefixes_of_a_command() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run(&format!("{FAST} --max-bans 3"));
    hosts.run("ban eth0 192.0.2.1 10.0.0.0/8 --for 1s");
    let full = hosts.limiter("ban eth0 192.0.2.1 192.0.2.2 192.0.2.3");
    full.expect_error(
        1,
        &[
            "room for 3 bans",
            "there would be 4",
            "none was added",
            "--max-bans",
        ],
    );
    assert_eq!(count(&hosts), 2);
    assert!(!is_banned(&hosts, "192.0.2.2"));
    sleep(Duration::from_millis(1_050));
    // Bans that have ended make room.
    hosts.run("ban eth0 192.0.2.1 192.0.2.2 192.0.2.3");
    assert!(is_banned(&hosts, "192.0.2.2"));
    let file = folder.write("limiter.toml", at_driver(FULL));
    let reload = hosts.limiter(&format!("reload eth0 --config {file}"));
    reload.expect_error(1, &["max_bans is fixed at attach (3, 65536 wanted)"]);

    hosts.run("detach eth0");
    hosts.run(&format!("{FAST} --max-bans 0"));
    let none = hosts.limiter("ban eth0 192.0.2.1");
    none.expect_error(
        1,
        &["room for 0 bans", "attach again with a larger --max-bans"],
    );
}

/// Other programs write addresses, reasons and names in these forms.
#[test]
fn bans_have_the_network_the_ipv4_address_and_texts_that_fit() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    let reason = "a reason that is longer than a ban has room for";
    let (network, mapped) = ("203.0.113.77/24", "::ffff:198.51.100.7");
    let origin = "a-program-whose-name-does-not-fit-1";
    hosts.run(&[
        "ban", "eth0", network, mapped, "--reason", reason, "--origin", origin,
    ]);
    let bans = hosts.json("bans eth0 --json");
    let bans = bans["bans"].as_array().unwrap();
    let prefixes: Vec<_> = bans.iter().map(|ban| &ban["prefix"]).collect();
    assert_eq!(prefixes, ["198.51.100.7", "203.0.113.0/24"]);
    assert_eq!(bans[0]["reason"], "a reason that is longer than a ban ha…");
    let origin = bans[0]["origin"].as_str().unwrap();
    assert!(origin.starts_with("a-program-whose-name-do~"), "{origin}");
    hosts.run("unban eth0 203.0.113.99/24 ::ffff:198.51.100.7 --origin a-program-whose-name-does-not-fit-2");
    assert_eq!(count(&hosts), 2);
    hosts.run("unban eth0 203.0.113.99/24 ::ffff:198.51.100.7 --origin a-program-whose-name-does-not-fit-1");
    assert_eq!(count(&hosts), 0);
}

#[test]
fn mistaken_bans_are_refused_and_change_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(FAST);
    for (words, why) in [
        ("0.0.0.0/0", "too much of the Internet to ban"),
        ("192.0.2.1 ::/1", "too much of the Internet to ban"),
        ("::ffff:0.0.0.0/97", "too much of the Internet to ban"),
        ("192.0.2.1/33", "is not a prefix"),
        ("192.0.2.1 --for 0s", "write 1s or more"),
    ] {
        hosts
            .limiter(&format!("ban eth0 {words}"))
            .expect_error(2, &[why]);
    }
    assert_eq!(count(&hosts), 0);
    hosts.run("ban eth0 10.0.0.0/8");
    let unban = hosts.limiter("unban eth0 10.1.2.3");
    unban.expect(0);
    let unchanged = "eth0: unchanged: 10.1.2.3 is not banned; the ban of 10.0.0.0/8 contains it\n";
    assert_eq!(unban.stdout, unchanged);
    hosts.limiter("unban eth0 10.1.2.3 --strict").expect(1);
}

#[test]
fn held_sources_are_listed_and_unban_ends_their_hold() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 2\nhold = \"1h\"\n",
    );
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.7", 5), 2);
    let held = hosts.json("bans --json")["held"].clone();
    assert_eq!(held[0]["source"], "192.0.2.7", "{held}");
    assert_eq!(held[0]["limit"], "one");
    let text = hosts.run("bans");
    assert!(text.contains("eth0: 0 bans\nheld by a limit:"), "{text}");
    assert_eq!(
        hosts.run("unban eth0 192.0.2.7"),
        "eth0: 192.0.2.7 unbanned\n"
    );
    assert_eq!(
        traffic.passed("192.0.2.7", 5),
        2,
        "its bucket is full again"
    );
}

#[test]
fn bans_drop_nothing_and_count_nothing_in_shadow() {
    need_kernel!();
    for (way, hosts) in every_way() {
        let traffic = Traffic::new(&hosts);
        hosts.run("ban eth0 203.0.113.66");
        assert_eq!(traffic.passed("203.0.113.66", 5), 0, "{way}");
        hosts.run("set eth0 --shadow on");
        assert_eq!(traffic.passed("203.0.113.66", 7), 7, "{way}");
        assert_eq!(dropped(&hosts, "203.0.113.66"), 5, "{way}");
        assert_eq!(number(&hosts.status()["would_drop"]["packets"]), 7, "{way}");
    }
}

/// The kernel would free a large trie in one go.
#[test]
fn million_addresses_and_many_prefixes_are_banned_listed_and_removed() {
    need_kernel!();
    let [singles, prefixes] = repetitions([200_000, 20_000], [1_000_000, 100_000_u32]);
    let most = singles + prefixes + 1;
    let hosts = Hosts::new();
    hosts.run(&format!("{FAST} --max-bans {most}"));
    let ban = |prefix: IpNet| (prefix, bans::ban(0, 0, "list", "").unwrap());
    let addresses =
        (0..singles).map(|i| IpNet::from(IpAddr::from((0x0a00_0000 + 2 * i).to_be_bytes())));
    let last = Ipv4Addr::from(0x0a00_0000 + 2 * (singles - 1));
    let beside = Ipv4Addr::from(u32::from(last) + 1);
    let prefixes = (0..prefixes).map(|i| match i % 2 {
        0 => Ipv4Net::new((0x2000_0000 + (i << 6)).into(), 28)
            .unwrap()
            .into(),
        _ => Ipv6Net::new((0x2001_0db8_u128 << 96 | u128::from(i) << 64).into(), 64)
            .unwrap()
            .into(),
    });
    let mut all: Vec<_> = addresses.chain(prefixes).map(ban).collect();
    all.sort_unstable_by_key(|(prefix, _)| *prefix);
    let steps = on(&hosts.server, || {
        let open = async { Attachment::open("eth0").await.unwrap() };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut attachment = runtime.block_on(open);
        let _lock = attachment.lock().unwrap();
        let start = Instant::now();
        attachment
            .bans
            .add(&all, most, clock::now().unwrap())
            .unwrap();
        let added = start.elapsed();
        let mut read = attachment.bans.at(clock::now().unwrap()).unwrap();
        read.sort_unstable_by_key(|(prefix, _)| *prefix);
        assert!(read == all, "{} bans", read.len());
        [added, start.elapsed() - added]
    });
    let traffic = Traffic::new(&hosts);
    let frames = |sources: [&str; 4]| sources.map(|source| udp(&hosts, source.parse().unwrap(), 9));
    let (last, beside) = (last.to_string(), beside.to_string());
    let banned = frames(["10.0.0.0", &last, "32.0.0.3", "2001:db8:0:1::7"]);
    let others = frames(["10.0.0.1", &beside, "32.0.0.17", "2001:db8:0:2::7"]);
    assert_eq!(traffic.send(&banned.each_ref().map(|frame| &frame[..])), 0);
    assert_eq!(traffic.send(&others.each_ref().map(|frame| &frame[..])), 4);
    let start = Instant::now();
    hosts.run("ban eth0 192.0.2.7");
    hosts.run("unban eth0 10.0.0.0");
    let edited = start.elapsed();
    assert_eq!(
        traffic.send(&[&banned[0], &banned[1]]),
        1,
        "one is unbanned"
    );
    let start = Instant::now();
    hosts.run("detach eth0");
    let detached = start.elapsed();
    println!("added, read: {steps:?}; two edits: {edited:?}; detached: {detached:?}");
    assert!(detached < Duration::from_secs(60), "{detached:?}");
    assert!(!hosts.pins().exists());
}

/// Several interfaces are read at once, and their answers are printed one after the other, as they are.
#[test]
fn answers_of_several_interfaces_are_printed_unchanged() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 lo --rate 1000000");
    let reason = "no\u{a0}break";
    for interface in ["eth0", "lo"] {
        let ban = ["ban", interface, "198.51.100.7", "--reason", reason];
        hosts.limiter(&ban).expect(0);
    }
    let printed = hosts.run("bans all --json");
    let answers: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 2, "{printed}");
    for answer in answers {
        assert_eq!(answer["bans"][0]["reason"], reason);
    }
}
