//! A prefix that one host adds to a shared list is in force on all hosts of the fleet.

use std::{
    fs::File,
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use limiter_kernel::state::pins;
use limiter_tests::{
    command::Outcome,
    eventually,
    fleet::{Fleet, Load, source},
    hosts::on,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::case::{Case, fleet};

/// A source that is on the list by each host's own file.
const OWN: &str = "203.0.113.66";
/// A source that the fleet denies.
const OTHER: &str = "203.0.113.7";
const ALL: [usize; 3] = [0, 1, 2];

fn settings() -> String {
    format!(
        "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[lists]\ngold = []\n\
         deny = {{ scope = \"fleet\", prefixes = [\"{OWN}\"] }}\n\
         [[limit]]\nname = \"all\"\nrate = \"1M/s\"\n"
    )
}

/// A store, and agents on these hosts that have read the lists.
fn case<'f>(fleet: &'f Fleet, hosts: &[usize]) -> Case<'f> {
    let mut case = Case::without_agents(fleet);
    case.agents = hosts.iter().map(|host| case.agent(*host)).collect();
    for host in hosts {
        let condition = format!("host {host} has read the lists");
        eventually(&condition, || list(fleet, *host)["fleet"].is_array());
    }
    case
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

fn list(fleet: &Fleet, host: usize) -> Value {
    fleet.json(host, &["deny", "list", "eth0", "--json"])
}

/// Prefixes in force on a host.
fn denied(fleet: &Fleet, host: usize) -> Vec<String> {
    let list = list(fleet, host);
    let prefixes = list["prefixes"].as_array().unwrap().iter();
    prefixes
        .map(|prefix| prefix.as_str().unwrap().to_owned())
        .collect()
}

/// A prefix that the fleet has added to the list, from a host's agent.
fn listed(fleet: &Fleet, host: usize, prefix: &str) -> Option<Value> {
    let list = list(fleet, host)["fleet"].clone();
    let mut listed = list.as_array()?.iter();
    listed.find(|entry| entry["prefix"] == prefix).cloned()
}

fn wait_until_denied(fleet: &Fleet, hosts: &[usize], prefixes: &[&str]) {
    for host in hosts {
        let condition = format!("host {host} denies {prefixes:?}");
        eventually(&condition, || denied(fleet, *host) == prefixes);
    }
}

/// Sends six packets from a source, two to each host. Returns the number that pass.
fn passes(fleet: &Fleet, source: Ipv4Addr) -> u64 {
    let before = fleet.admitted();
    fleet.send(&Load::at_once(source, 6));
    fleet.admitted() - before
}

#[test]
fn prefix_denied_on_one_host_is_denied_on_all_within_a_second() {
    let fleet = fleet!(&settings());
    let _case = case(&fleet, &ALL);
    let listed_source = source(7);
    assert_eq!(passes(&fleet, listed_source), 6);

    // Measures the time from the end of the command until every host reports the prefix. Takes the best of several
    // tries, because the machine may be busy.
    let mut took = Duration::MAX;
    for host in [0, 1, 2, 0, 1, 2] {
        done(&fleet, host, "add", &[OTHER]);
        let start = Instant::now();
        let has = |host| denied(&fleet, host) == [OTHER, OWN];
        assert!(has(host), "in force here at once");
        eventually("all deny it", || ALL.iter().all(|host| has(*host)));
        took = took.min(start.elapsed());
        if took < Duration::from_secs(1) {
            break;
        }
        done(&fleet, host, "remove", &[OTHER]);
        wait_until_denied(&fleet, &ALL, &[OWN]);
    }
    println!("in force on all hosts after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");

    // Packets are dropped, and the list has author and time. Another host removes the prefix.
    let author = listed(&fleet, 1, OTHER).unwrap()["by"].clone();
    assert_eq!(passes(&fleet, listed_source), 0);
    assert_eq!(passes(&fleet, source(8)), 6);
    for host in ALL {
        let entry = listed(&fleet, host, OTHER).unwrap();
        let age = entry["age_seconds"].as_f64().unwrap();
        assert!(
            (0.0..60.0).contains(&age) && entry["by"] == author,
            "{entry}"
        );
        assert!(listed(&fleet, host, OWN).is_none());
    }
    let text = done(&fleet, 2, "remove", &[OTHER]);
    let expected = "deny: 1 removed, on all hosts of fleet 'edge'";
    assert!(text.contains(expected), "{text}");
    wait_until_denied(&fleet, &ALL, &[OWN]);
    assert_eq!(passes(&fleet, listed_source), 6);
}

#[test]
fn host_and_fleet_remove_only_their_own_prefixes() {
    let fleet = fleet!(&settings());
    let case = case(&fleet, &ALL);
    // Edits of the fleet neither remove nor expire the prefixes of the host's own file.
    let refused = |verb: &str, more: &[&str], words: &[&str]| {
        let before = denied(&fleet, 0);
        deny(&fleet, 0, verb, more).expect_error(1, words);
        assert_eq!(denied(&fleet, 0), before, "{verb} {more:?}");
    };
    let own = ["by this host's own configuration", "limiter reload"];
    refused("remove", &[OWN], &own);
    let replace = ["'edge'", "use `remove` and `add`"];
    refused("replace", &[OTHER], &replace);
    let nothing = done(&fleet, 0, "remove", &["203.0.113.1"]);
    assert!(nothing.contains("203.0.113.1 is not on deny"), "{nothing}");
    done(&fleet, 0, "add", &[OWN, OTHER]);
    wait_until_denied(&fleet, &ALL, &[OTHER, OWN]);
    let output = done(&fleet, 1, "remove", &[OWN, OTHER]);
    let stays = format!("{OWN} stays on deny here");
    assert!(output.contains(&stays), "{output}");
    wait_until_denied(&fleet, &ALL, &[OWN]);

    // A list that becomes shared again between two polls of the agent has the prefixes in the store.
    done(&fleet, 0, "add", &[OTHER]);
    wait_until_denied(&fleet, &ALL, &[OTHER, OWN]);
    case.agents[1].signal(Signal::SIGSTOP);
    fleet.reload(1, &settings().replace("edge", "core"));
    assert_eq!(denied(&fleet, 1), [OWN]);
    fleet.reload(1, &settings());
    case.agents[1].signal(Signal::SIGCONT);
    wait_until_denied(&fleet, &[1], &[OTHER, OWN]);

    // A prefix that would cut the hosts off from the store is refused. In the store, it is skipped.
    let cut = ["198.51.100.0/24 contains the store's own address"];
    refused("add", &["203.0.113.20", "198.51.100.0/24"], &cut);
    case.store.garble_list();
    for agent in &case.agents {
        agent.wait_until_it_says("0.0.0.0/0 on the fleet's deny is not in force here");
    }
    let shown = done(&fleet, 2, "list", &[]);
    let skipped = "# 0.0.0.0/0 is not in force here: by admin";
    assert!(shown.contains(skipped), "{shown}");
    wait_until_denied(&fleet, &ALL, &[OTHER, OWN]);
    assert_eq!(passes(&fleet, source(8)), 6);
    // An invalid list changes nothing.
    let words = case.store.spoil_list();
    for agent in &case.agents {
        agent.wait_until_it_says(words);
    }
    refused("add", &["203.0.113.20"], &[words]);
    assert_eq!(denied(&fleet, 0), [OTHER, OWN]);
}

#[test]
fn fleet_lists_outlive_agents_and_store() {
    let fleet = fleet!(&settings());
    let mut case = case(&fleet, &[0, 1]);

    // A host that joins later gets the list. A host that leaves keeps it in force.
    done(&fleet, 0, "add", &[OTHER]);
    let third = case.agent(2);
    wait_until_denied(&fleet, &[1, 2], &[OTHER, OWN]);
    case.agents[1] = third;

    // Without a store, lists stay unchanged.
    case.store.save();
    case.store.stop();
    for agent in &case.agents {
        agent.wait_until_it_says("until then each host applies the limits alone");
    }
    deny(&fleet, 0, "add", &["203.0.113.5"]).expect_error(1, &["nothing was changed"]);
    wait_until_denied(&fleet, &ALL, &[OTHER, OWN]);

    // With the store, edits work again. A host that missed them gets them.
    case.store.go_on();
    let is_back = || deny(&fleet, 2, "add", &["203.0.113.5"]).status == 0;
    eventually("edits work again", is_back);
    case.agents.push(case.agent(1));
    wait_until_denied(&fleet, &ALL, &["203.0.113.5", OTHER, OWN]);
    eventually("all hosts are members", || case.says(1)["hosts"] == 3);
    // The store loses its data, and a host changes the list. No host loses a prefix, and all can be removed.
    case.store.forget();
    let add = || deny(&fleet, 0, "add", &["203.0.113.6"]).status == 0;
    eventually("edits work again", add);
    let all = ["203.0.113.5", "203.0.113.6", OTHER, OWN];
    wait_until_denied(&fleet, &ALL, &all);
    let said = "the agents put the 2 prefixes that are missing back";
    let says = |agent: &limiter_tests::fleet::Agent| agent.printed().contains(said);
    eventually("an agent says it", || case.agents.iter().any(says));
    eventually("the store has them", || case.store.entries() == "3");
    assert!(
        listed(&fleet, 1, OTHER).unwrap()["age_seconds"]
            .as_f64()
            .unwrap()
            > 0.5
    );
    done(&fleet, 1, "remove", &[OTHER]);
    wait_until_denied(&fleet, &ALL, &["203.0.113.5", "203.0.113.6", OWN]);
    thread::sleep(Duration::from_secs(2));
    wait_until_denied(&fleet, &ALL, &["203.0.113.5", "203.0.113.6", OWN]);
}

/// The store has the request when the agent's patience ends.
#[test]
fn change_that_may_come_into_force_later_is_not_called_undone() {
    let fleet = fleet!(&settings());
    let case = case(&fleet, &[0]);
    done(&fleet, 0, "add", &["203.0.113.5"]);
    case.store.pause();
    let words = ["has not answered within", "may still come into force"];
    deny(&fleet, 0, "add", &[OTHER]).expect_error(1, &words);
    case.store.resume();
    wait_until_denied(&fleet, &[0], &["203.0.113.5", OTHER, OWN]);
}

/// Another command holds the host's lock for longer than a silent member is counted.
#[test]
fn host_that_waits_for_its_lists_stays_a_member() {
    let fleet = fleet!(&settings());
    let case = case(&fleet, &[0, 1]);
    let hosts = || case.says(0)["hosts"].clone();
    eventually("both hosts are members", || hosts() == 2);
    let pins = on(fleet.host(1), || pins::directory("eth0")).unwrap();
    let lock = File::open(pins).unwrap();
    lock.lock().unwrap();
    done(&fleet, 0, "add", &[OTHER]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        assert_eq!(hosts(), 2, "after {:?}", begin.elapsed());
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(denied(&fleet, 1), [OWN]);
    drop(lock);
    let begin = Instant::now();
    wait_until_denied(&fleet, &[1], &[OTHER, OWN]);
    assert!(begin.elapsed() < Duration::from_secs(4), "{begin:?}");
}
