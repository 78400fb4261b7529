//! Agents report a store that refuses them, and recover when it accepts them again.

use std::{thread, time::Duration};

use limiter_tests::{eventually, fleet::store_url};

use super::{case::Case, fleet};
use crate::shared::store;

#[test]
fn agent_reports_a_wrong_password_once_and_retries() {
    let fleet = fleet!();
    let store = store(&fleet);
    let wrong = store_url(store.port).replace("//", "//:another@");
    let mut agent = fleet.agent(0, &wrong, &[]);
    agent.wait_until_it_says("rejects the user or the password");
    let case = Case {
        agents: Vec::new(),
        store,
        fleet: &fleet,
    };
    let error = case.says(0)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("rejects the user"), "{error}");
    assert!(!error.contains("another"), "{error}");
    let stream = case.load();
    // The agent retries.
    eventually("the agent retries", || {
        let log = case.store.cli(&["ACL", "LOG"]);
        let count = log.lines().skip_while(|line| *line != "count").nth(1);
        count.and_then(|count| count.parse::<u32>().ok()) > Some(3)
    });
    assert!(agent.is_running());
    let text = agent.printed();
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    case.store.cli(&["CONFIG", "SET", "requirepass", "another"]);
    agent.wait_until_it_says("answers again");
    eventually("the agent is in the fleet", || case.says(0)["hosts"] == 1);
    drop(agent);
    case.end(stream);
}

#[test]
fn full_store_stops_sharing_until_it_has_memory() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    case.store
        .cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    case.store.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for host in 0..3 {
        let error = case.grows_stale(host);
        assert!(error.contains("is full: raise its maxmemory"), "{error}");
    }
    // After this time, the store knows of no member.
    thread::sleep(Duration::from_secs(3));
    case.store.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    case.recovered(0..3);
    case.bound_holds();
    for agent in &case.agents {
        let text = agent.printed();
        assert_eq!(text.matches("is full").count(), 1, "{text}");
        // The first agent that recovers does not report a fleet of one host, which would have another bound.
        let back = text.split("is full").nth(1).unwrap();
        assert!(!back.contains("has 1 host"), "{text}");
    }
    case.end(stream);
}
