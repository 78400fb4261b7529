//! A prefix that one host adds to a shared list is in force on all hosts of the fleet.

use std::{
    fs::File,
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::Outcome,
    eventually,
    fleet::{Agent, Fleet, Load, source},
    hosts::on,
    number,
    redis::Redis,
};
use limiter_user::kernel::state::pins;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::shared::{fleet, store, url};

/// A source that is on the list by each host's own file.
const OWN: &str = "203.0.113.66";

fn text(deny: &str) -> String {
    format!(
        "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[lists]\ndeny = {deny}\ngold = []\n\
         [[limit]]\nname = \"all\"\nrate = \"1M/s\"\n"
    )
}

fn settings() -> String {
    text(&format!("{{ scope = \"fleet\", prefixes = [\"{OWN}\"] }}"))
}

/// Starts the agent of a host, with the name `host-N` in the store.
fn agent(fleet: &Fleet, store: &Redis<'_>, host: usize) -> Agent {
    fleet.agent(host, &url(store.port), &["--host", &format!("host-{host}")])
}

/// Starts agents on these hosts, and waits until they have read the lists.
fn agents(fleet: &Fleet, store: &Redis<'_>, hosts: &[usize]) -> Vec<Agent> {
    let agents = hosts
        .iter()
        .map(|host| agent(fleet, store, *host))
        .collect();
    for host in hosts {
        has_read(fleet, *host);
    }
    agents
}

fn has_read(fleet: &Fleet, host: usize) {
    let what = format!("host {host} has read the lists");
    eventually(&what, || list(fleet, host)["fleet"].is_array());
}

fn deny(fleet: &Fleet, host: usize, verb: &str, more: &[&str]) -> Outcome {
    let arguments = [&["deny", verb, "eth0"], more].concat();
    fleet.limiter(host, &arguments)
}

fn done(fleet: &Fleet, host: usize, verb: &str, more: &[&str]) -> String {
    let outcome = deny(fleet, host, verb, more);
    outcome.expect(0);
    outcome.stdout + &outcome.stderr
}

/// Panics unless the command is refused with these words, and the list is unchanged.
fn refused(fleet: &Fleet, host: usize, verb: &str, more: &[&str], words: &[&str]) {
    let before = denied(fleet, host);
    deny(fleet, host, verb, more).expect_error(1, words);
    assert_eq!(denied(fleet, host), before, "{verb} {more:?}");
}

fn list(fleet: &Fleet, host: usize) -> Value {
    fleet.json(host, &["deny", "list", "eth0", "--json"])
}

/// Prefixes in force on a host.
fn denied(fleet: &Fleet, host: usize) -> Vec<String> {
    let list = list(fleet, host);
    let prefixes = list["prefixes"].as_array().unwrap().iter();
    prefixes.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// A prefix that the fleet has added to the list, from a host's agent.
fn listed(fleet: &Fleet, host: usize, prefix: &str) -> Option<Value> {
    let list = list(fleet, host)["fleet"].clone();
    let mut listed = list.as_array()?.iter();
    listed.find(|it| it["prefix"] == prefix).cloned()
}

fn wait_until_denied(fleet: &Fleet, hosts: &[usize], prefixes: &[&str]) {
    let start = Instant::now();
    for host in hosts {
        while denied(fleet, *host) != prefixes {
            let denied = denied(fleet, *host);
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "host {host} denies {denied:?}, not {prefixes:?}"
            );
        }
    }
}

/// Sends six packets from a source, two to each host. Returns the number that pass.
fn passes(fleet: &Fleet, source: Ipv4Addr) -> u64 {
    let before = fleet.admitted();
    let sent = fleet.send(&Load::at_once(source, 6));
    assert_eq!(sent.count(), 6);
    fleet.admitted() - before
}

#[test]
fn prefix_denied_on_one_host_is_denied_on_all_within_a_second() {
    let fleet = fleet!(&settings());
    let (store, all) = (store(&fleet), [0, 1, 2]);
    let agents = agents(&fleet, &store, &all);
    let one = source(7);
    assert_eq!(passes(&fleet, one), 6);

    // Measures the time from the end of the command until every host reports the prefix. Takes the best of several
    // tries, because the machine may be busy.
    let mut took = Duration::MAX;
    for round in 0..6_u8 {
        let prefix = source(100 + round).to_string();
        let host = usize::from(round % 3);
        let text = done(&fleet, host, "add", &[&prefix]);
        let start = Instant::now();
        assert!(
            text.contains("deny: 1 added, on all hosts of fleet 'edge'"),
            "{text}"
        );
        let has = |host| denied(&fleet, host).contains(&prefix);
        assert!(has(host), "in force here at once");
        eventually("all deny it", || all.iter().all(|host| has(*host)));
        took = took.min(start.elapsed());
        if took < Duration::from_secs(1) {
            break;
        }
    }
    println!("in force on all hosts after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let added = denied(&fleet, 0);
    let added: Vec<_> = added
        .iter()
        .map(String::as_str)
        .filter(|it| *it != OWN)
        .collect();
    done(&fleet, 1, "remove", &added);

    // Packets are dropped, and the list has author and time.
    done(&fleet, 0, "add", &["203.0.113.7"]);
    wait_until_denied(&fleet, &all, &["203.0.113.7", OWN]);
    assert_eq!(passes(&fleet, one), 0);
    assert_eq!(passes(&fleet, source(8)), 6);
    for host in all {
        let entry = listed(&fleet, host, "203.0.113.7").unwrap();
        assert_eq!(entry["by"], "host-0", "{entry}");
        let age = entry["age_seconds"].as_f64().unwrap();
        assert!((0.0..60.0).contains(&age), "{entry}");
        assert!(entry["left_seconds"].is_null(), "{entry}");
        assert!(listed(&fleet, host, OWN).is_none());
    }
    let shown = done(&fleet, 2, "list", &[]);
    assert!(shown.contains("203.0.113.7  # by host-0, "), "{shown}");
    assert!(shown.contains(&format!("{OWN}\n")), "{shown}");
    // Another host removes the prefix.
    let text = done(&fleet, 2, "remove", &["203.0.113.7"]);
    assert!(text.contains("deny: 1 removed, on all hosts"), "{text}");
    wait_until_denied(&fleet, &all, &[OWN]);
    assert_eq!(passes(&fleet, one), 6);

    // A prefix with a time to live is on all hosts. The time is longer than a slow machine takes for the checks.
    let text = done(&fleet, 1, "add", &["203.0.113.7", "--for", "1h"]);
    assert!(text.contains("1 added, for 1h,"), "{text}");
    wait_until_denied(&fleet, &all, &["203.0.113.7", OWN]);
    for host in all {
        let left = listed(&fleet, host, "203.0.113.7").unwrap()["left_seconds"].clone();
        assert!((1.0..=3_600.0).contains(&left.as_f64().unwrap()), "{left}");
    }
    assert_eq!(passes(&fleet, one), 0);
    // A second edit replaces the time.
    done(&fleet, 2, "add", &["203.0.113.7", "--for", "1s"]);
    wait_until_denied(&fleet, &all, &[OWN]);
    assert_eq!(passes(&fleet, one), 6);

    // The prefixes need more than one request.
    let many: Vec<_> = (0..1_100_u32)
        .map(|number| Ipv4Addr::from(0x0a00_0000 + number).to_string())
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let text = done(&fleet, 0, "add", &many);
    assert!(text.contains("deny: 1100 added"), "{text}");
    assert_eq!(denied(&fleet, 0).len(), 1_101);
    let kept = store.cli(&["HLEN", "limiter:{edge}:list:deny"]);
    assert_eq!(kept, "1100", "the store has removed expired prefixes");
    eventually("all deny them", || denied(&fleet, 2).len() == 1_101);
    done(&fleet, 2, "remove", &many);
    wait_until_denied(&fleet, &all, &[OWN]);
    drop(agents);
}

#[test]
fn host_and_fleet_remove_only_their_own_prefixes() {
    let fleet = fleet!(&settings());
    let (store, all) = (store(&fleet), [0, 1, 2]);
    let agents = agents(&fleet, &store, &all);
    let other = "203.0.113.9";

    // Edits of the fleet neither remove nor expire the prefixes of the host's own file.
    let own = ["by this host's own configuration", "limiter reload"];
    refused(&fleet, 0, "remove", &[OWN], &own);
    let nothing = done(&fleet, 0, "remove", &["203.0.113.1"]);
    let unchanged = "unchanged: 203.0.113.1 is not on deny, on all hosts of fleet 'edge'";
    assert!(nothing.contains(unchanged), "{nothing}");
    refused(
        &fleet,
        0,
        "replace",
        &[other],
        &["'edge'", "use `remove` and `add`"],
    );
    done(&fleet, 0, "add", &[OWN, other]);
    wait_until_denied(&fleet, &all, &[other, OWN]);
    let output = done(&fleet, 1, "remove", &[OWN, other]);
    assert!(
        output.contains(&format!("{OWN} stays on deny here")),
        "{output}"
    );
    wait_until_denied(&fleet, &all, &[OWN]);
    assert_eq!(passes(&fleet, Ipv4Addr::new(203, 0, 113, 66)), 0);

    // Only shared lists support a time to live.
    let alone = fleet.limiter(0, &["tier", "add", "eth0", "gold", other, "--for", "1h"]);
    alone.expect_error(
        1,
        &["--for", "gold", "nothing was added", "scope = \"fleet\""],
    );
    fleet
        .limiter(0, &["tier", "add", "eth0", "gold", other])
        .expect(0);

    // A list that becomes shared gets the prefixes in the store.
    done(&fleet, 0, "add", &[other]);
    wait_until_denied(&fleet, &all, &[other, OWN]);
    fleet.reload(1, &text(&format!("[\"{OWN}\"]")));
    wait_until_denied(&fleet, &[1], &[OWN]);
    let not_shared = deny(&fleet, 1, "add", &["203.0.113.5"]);
    not_shared.expect(0);
    assert!(
        not_shared.stdout.contains("deny: 1 added, 0 removed"),
        "{not_shared:?}"
    );
    fleet.reload(1, &settings().replace("edge", "core"));
    wait_until_denied(&fleet, &[1], &[OWN]);
    fleet.reload(1, &settings());
    wait_until_denied(&fleet, &[1], &[other, OWN]);
    // Stops the agent between two polls.
    agents[1].signal(Signal::SIGSTOP);
    fleet.reload(1, &settings().replace("edge", "core"));
    fleet.reload(1, &settings());
    agents[1].signal(Signal::SIGCONT);
    wait_until_denied(&fleet, &[1], &[other, OWN]);

    // A prefix that would cut the hosts off from the store is refused. In the store, it is skipped.
    let cut = [
        "198.51.100.0/24 contains the store's own address",
        "nothing was changed",
    ];
    refused(&fleet, 0, "add", &["203.0.113.20", "198.51.100.0/24"], &cut);
    store.cli(&[
        "HSET",
        "limiter:{edge}:list:deny",
        "0.0.0.0/0",
        r#"{"by":"admin","at":1,"until":null}"#,
        "203.0.113.10/33",
        r#"{"by":"admin","at":1,"until":null}"#,
        "203.0.113.11/32",
        "garbage",
    ]);
    store.cli(&["SET", "limiter:{edge}:revision", "5"]);
    for agent in &agents {
        agent.wait_until_it_says("0.0.0.0/0 on the fleet's deny is not in force here");
    }
    let shown = done(&fleet, 2, "list", &[]);
    assert!(
        shown.contains("# 0.0.0.0/0 is not in force here: by admin"),
        "{shown}"
    );
    wait_until_denied(&fleet, &all, &[other, OWN]);
    assert_eq!(passes(&fleet, source(8)), 6);
    // An invalid list, or one that is too long, changes nothing.
    store.cli(&["DEL", "limiter:{edge}:list:deny"]);
    store.cli(&["SET", "limiter:{edge}:list:deny", "x"]);
    store.cli(&["SET", "limiter:{edge}:revision", "6"]);
    for agent in &agents {
        agent.wait_until_it_says("limiter:{edge}:list:deny");
    }
    refused(
        &fleet,
        0,
        "add",
        &["203.0.113.20"],
        &["limiter:{edge}:list:deny"],
    );
    assert_eq!(denied(&fleet, 0), [other, OWN]);
}

#[test]
fn fleet_lists_outlive_agents_and_store() {
    let fleet = fleet!(&settings());
    let mut store = store(&fleet);
    let other = "203.0.113.9";
    let mut agents = agents(&fleet, &store, &[0, 1]);

    // A host that joins later gets the list. A host that leaves keeps it in force.
    done(&fleet, 0, "add", &[other]);
    agents.push(agent(&fleet, &store, 2));
    wait_until_denied(&fleet, &[2], &[other, OWN]);
    done(&fleet, 0, "add", &["203.0.113.8", "--for", "6s"]);
    let both = ["203.0.113.8", other, OWN];
    wait_until_denied(&fleet, &[1], &both);
    drop(agents.remove(1));

    // Without a store, lists stay unchanged, except for expired prefixes.
    store.cli(&["SAVE"]);
    store.stop();
    for agent in &agents {
        agent.wait_until_it_says("until then each host applies the limits alone");
    }
    deny(&fleet, 0, "add", &["203.0.113.5"]).expect_error(1, &["nothing was changed"]);
    wait_until_denied(&fleet, &[0, 2], &[other, OWN]);
    assert_eq!(denied(&fleet, 1), both, "no agent removes it");

    // With the store, edits work again.
    store.go_on();
    let is_back = || deny(&fleet, 2, "add", &["203.0.113.6"]).status == 0;
    eventually("edits work again", is_back);
    wait_until_denied(&fleet, &[0, 2], &["203.0.113.6", other, OWN]);
    // A host that missed the edits gets them.
    agents.push(agent(&fleet, &store, 1));
    wait_until_denied(&fleet, &[1], &["203.0.113.6", other, OWN]);
    done(&fleet, 1, "remove", &[other]);
    wait_until_denied(&fleet, &[0, 1, 2], &["203.0.113.6", OWN]);
    let hosts = || number(&fleet.status(1)["fleet"]["hosts"]);
    eventually("all hosts are members", || hosts() == 3);
    // The prefixes are lost with the store's data. All hosts say so.
    store.cli(&["FLUSHALL"]);
    wait_until_denied(&fleet, &[0, 1, 2], &[OWN]);
    for agent in &agents {
        agent.wait_until_it_says("the store has lost changes of the fleet's lists");
    }
}

/// Another command holds the host's lock for longer than a silent member is counted.
#[test]
fn host_that_waits_for_its_lists_stays_a_member() {
    let fleet = fleet!(&settings());
    let store = store(&fleet);
    let agents = agents(&fleet, &store, &[0, 1]);
    let hosts = || number(&fleet.status(0)["fleet"]["hosts"]);
    eventually("both hosts are members", || hosts() == 2);
    let pins = on(fleet.host(1), || pins::directory("eth0")).unwrap();
    let lock = File::open(pins).unwrap();
    lock.lock().unwrap();
    let other = "203.0.113.9";
    done(&fleet, 0, "add", &[other]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(5) {
        assert_eq!(hosts(), 2, "after {:?}", begin.elapsed());
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(denied(&fleet, 1), [OWN]);
    drop(lock);
    let begin = Instant::now();
    wait_until_denied(&fleet, &[1], &[other, OWN]);
    assert!(begin.elapsed() < Duration::from_secs(4), "{begin:?}");
    drop(agents);
}
