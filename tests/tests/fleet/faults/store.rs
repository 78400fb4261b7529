//! The fleet recovers from faults of the store and of the network to it.

use std::{thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Fleet, Network, STORE},
    redis::{Redis, Setup},
};

use super::{case::Case, fleet};
use crate::shared::{PASSWORD, store};

/// A fault, or its repair.
type Step = fn(&Network);

/// Separates host 2 from the store and from hosts 0 and 1, and reconnects it.
fn separate_host_2(fleet: &Fleet, fault: Step, mend: Step) {
    let case = Case::new(fleet);
    let stream = case.load();
    fault(&fleet.network);
    case.grows_stale(2);
    // The two other hosts continue without a gap.
    for host in [0, 1] {
        let says = case.says(host);
        assert!(says["error"].is_null(), "{says}");
    }
    mend(&fleet.network);
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}

#[test]
fn host_recovers_after_its_link_is_cut() {
    separate_host_2(
        &fleet!(),
        |network| network.cut(2),
        |network| network.heal(2),
    );
}

#[test]
fn host_recovers_after_its_link_loses_all_packets() {
    separate_host_2(
        &fleet!(),
        |network| network.lose(2),
        |network| network.heal(2),
    );
}

#[test]
fn fleet_recovers_after_the_store_does_not_answer() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    case.store.pause();
    for host in [0, 2] {
        case.grows_stale(host);
    }
    case.store.resume();
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}

#[test]
fn fleet_recovers_after_the_store_restarts_empty() {
    let fleet = fleet!();
    let mut case = Case::new(&fleet);
    let stream = case.load();
    case.store.stop();
    for host in [0, 2] {
        case.grows_stale(host);
    }
    case.store.restart_empty();
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}

#[test]
fn fleet_recovers_when_a_replica_takes_over() {
    let fleet = fleet!();
    let first = store(&fleet);
    let second = Redis::start_as(Setup {
        host: Some(&fleet.network.store),
        address: Some(STORE.to_string()),
        password: Some(PASSWORD.to_owned()),
        more: ["--port", "6380", "--masterauth", PASSWORD]
            .map(str::to_owned)
            .to_vec(),
        ..Setup::default()
    });
    second.replicate(&first);
    let mut case = Case::with(&fleet, first);
    let stream = case.load();
    case.store.stop();
    for host in [0, 2] {
        case.grows_stale(host);
    }
    // The second store takes over the address. It is still a replica, and accepts no writes.
    second.cli(&["CONFIG", "SET", "port", "6379"]);
    let replica = |host: usize| {
        let error = case.says(host)["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        error.contains("is a replica")
    };
    eventually("an agent meets a replica", || replica(0));
    thread::sleep(Duration::from_millis(100));
    second.promote();
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}
