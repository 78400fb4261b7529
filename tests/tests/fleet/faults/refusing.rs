//! Agents report a full store, and recover when it has memory again.

use std::{thread, time::Duration};

use super::{case::Case, fleet};

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
