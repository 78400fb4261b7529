//! `kill -9` of a command that changes many bans leaves all of them as they were, or all as they should be.

use std::{
    collections::BTreeSet,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::prepared,
    effort::repetitions,
    hosts::{Hosts, on},
    need_kernel, number,
    probe::{Probe, SENT},
    steps::{End, Fault},
};

use super::case::{Case, MANY, RENEWED, Verb};

/// Number of bans, and how many of them have no end.
fn bans(hosts: &Hosts) -> [usize; 2] {
    let listed = hosts.json("bans eth0 --json")["bans"].clone();
    let listed = listed.as_array().unwrap();
    let endless = listed.iter().filter(|ban| ban["left_seconds"].is_null());
    [listed.len(), endless.count()]
}

/// Panics unless all bans are as before, or all as after, for packets and for commands: now, and after the next command.
fn all_or_none(case: &Case<'_>, is_after: bool, [before, after]: [[usize; 2]; 2], situation: &str) {
    let hosts = &case.place.hosts;
    let wanted = if is_after { after } else { before };
    assert_eq!(bans(hosts), wanted, "{situation}");
    for address in MANY.iter().filter_map(|text| text.parse().ok()) {
        let is_banned = case.probe.passed(address) == 0;
        let at_first = RENEWED.iter().any(|text| text.parse() == Ok(address));
        let is_wanted = wanted[0] == MANY.len() || wanted[0] > 0 && at_first;
        assert_eq!(is_banned, is_wanted, "{address}: {situation}");
    }
    hosts.run("ban eth0 10.96.0.1 --for 1h");
    assert_eq!(bans(hosts), [wanted[0] + 1, wanted[1]], "{situation}");
    hosts.run("unban eth0 10.96.0.1");
    let counted = &hosts.status()["bans"]["by_origin"]["hand"];
    let counted = if counted.is_null() {
        0
    } else {
        number(counted)
    };
    assert_eq!(counted, wanted[0] as u64, "{situation}");
}

#[test]
fn killed_ban_of_many_adds_and_renews_all_or_none() {
    need_kernel!();
    let states = [[RENEWED.len(), 0], [MANY.len(), MANY.len()]];
    Verb::Bans.at_each_step(
        |_| Fault::Kill,
        |case, stopped, call, look| {
            assert_eq!(stopped.end, End::Killed(call.name.clone()));
            all_or_none(case, look == case.after, states, &format!("{call:?}"));
        },
    );
}

#[test]
fn killed_unban_of_many_removes_all_or_none() {
    need_kernel!();
    let states = [[MANY.len(), MANY.len()], [0, 0]];
    Verb::Unbans.at_each_step(
        |_| Fault::Kill,
        |case, stopped, call, look| {
            assert_eq!(stopped.end, End::Killed(call.name.clone()));
            all_or_none(case, look == case.after, states, &format!("{call:?}"));
        },
    );
}

/// No memory for one of the bans.
#[test]
fn refused_ban_of_many_changes_none() {
    need_kernel!();
    let states = [[RENEWED.len(), 0], [MANY.len(), MANY.len()]];
    Verb::Bans.at_each_step(
        |_| Fault::Refuse(libc::EPERM),
        |case, _, call, look| {
            all_or_none(case, look == case.after, states, &format!("{call:?}"));
        },
    );
}

/// Kills at random moments, also between system calls.
#[test]
fn ban_and_unban_of_two_thousand_are_killed_at_any_moment() {
    need_kernel!();
    const BANS: usize = 2_000;
    let kills: u32 = repetitions(20, 60);
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M --burst 1M");
    let probe = Probe::new(&hosts);
    let addresses: Vec<_> = (0..BANS)
        .map(|i| format!("10.97.{}.{}", i / 250, i % 250))
        .collect();
    let words = |verb| -> Vec<&str> {
        let addresses = addresses.iter().map(String::as_str);
        let own = (verb == "unban").then_some(["--origin", "hand"]);
        let own = own.into_iter().flatten();
        [verb, "eth0"]
            .into_iter()
            .chain(addresses)
            .chain(own)
            .collect()
    };
    // Of another origin, which stays.
    let other = &addresses[BANS / 3];
    hosts.run(&format!("ban eth0 {other} --origin other --for 1h"));
    let bans = |hosts: &Hosts| {
        let listed = hosts.json("bans eth0 --origin hand --json");
        number(&listed["count"]) as usize
    };
    let start = Instant::now();
    hosts.limiter(&words("ban")).expect(0);
    hosts.limiter(&words("unban")).expect(0);
    let longest = start.elapsed() / 2;
    let mut seen = BTreeSet::new();
    for kill in 0..kills {
        let verb = if bans(&hosts) == 0 { "ban" } else { "unban" };
        let mut command = prepared(&words(verb));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = on(&hosts.server, || command.spawn()).unwrap();
        // In an order without a pattern, over the whole of the command.
        thread::sleep(longest * (kill * 37 % kills) / kills);
        process.kill().unwrap();
        process.wait().unwrap();
        let left = bans(&hosts);
        assert!([0, BANS].contains(&left), "{verb}: {left} bans");
        let passed: BTreeSet<_> = [0, 1, BANS / 2, BANS - 1]
            .iter()
            .map(|index| probe.passed(addresses[*index].parse().unwrap()))
            .collect();
        let wanted = if left == 0 { SENT } else { 0 };
        assert_eq!(passed, BTreeSet::from([wanted]), "{verb}: {left} bans");
        assert_eq!(
            probe.passed(other.parse().unwrap()),
            0,
            "{verb}: {left} bans"
        );
        hosts.run("ban eth0 10.96.0.1");
        assert_eq!(bans(&hosts), left + 1, "{verb}");
        hosts.run("unban eth0 10.96.0.1");
        seen.insert((verb, left));
        // The other state, from which the next command is killed.
        if kill % 3 == 0 {
            hosts.limiter(&words(verb)).expect(0);
        }
    }
    println!("{seen:?} within {longest:?}");
    assert!(
        seen.len() >= 3 && longest > Duration::from_millis(5),
        "{seen:?}"
    );
}
