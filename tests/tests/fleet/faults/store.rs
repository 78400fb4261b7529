//! Faults of the store, and of the network to it.

use std::{thread, time::Duration};

use limiter_tests::{
    fleet::{Detour, Fleet, Network, STORE},
    redis::{Redis, Setup},
};

use super::{case::Case, fleet};
use crate::shared::{PASSWORD, store, url};

/// A fault, or its repair.
type Step = fn(&Network);

/// Separates host 2 from hosts 0 and 1, which keep the store; then the hosts hear of each other again.
fn apart(fleet: &Fleet, fault: Step, mend: Step) {
    let case = Case::new(fleet);
    let stream = case.load();
    fault(&fleet.network);
    case.grows_stale(2);
    // The two others do not notice it.
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
fn a_link_is_cut() {
    apart(
        &fleet!(),
        |network| network.cut(2),
        |network| network.heal(2),
    );
}

#[test]
fn a_link_loses_all_without_a_sign() {
    apart(
        &fleet!(),
        |network| network.lose(2),
        |network| network.heal(2),
    );
}

/// The store is up, but does not answer.
#[test]
fn the_store_stands_still() {
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

/// The store loses all its data.
#[test]
fn the_store_is_gone_and_comes_back_empty() {
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

/// A slow link is no fault: the status reports it, and the bound holds.
#[test]
fn the_way_is_slow_and_narrow() {
    const DELAY: Duration = Duration::from_millis(50);
    let fleet = fleet!();
    let store = store(&fleet);
    let detour = Detour::start(&fleet.network.store, 7_000, store.port);
    detour.delay(DELAY);
    let case = Case::with(&fleet, store, &url(7_000));
    let stream = case.load();
    for host in 0..3 {
        let says = case.says(host);
        assert!(says["error"].is_null(), "{says}");
        // The delay there and back.
        let stale = says["staleness_seconds"].as_f64();
        assert!(stale >= Some(2.0 * DELAY.as_secs_f64()), "{says}");
    }
    case.bound_holds();
    detour.delay(Duration::ZERO);
    fleet.network.narrow(1, 20_000);
    case.recovered([0, 2]);
    case.bound_holds();
    case.end(stream);
}

/// Another store, which has copied the first one, takes over.
#[test]
fn a_replica_takes_over() {
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
    let detour = Detour::start(&fleet.network.store, 7_000, first.port);
    let mut case = Case::with(&fleet, first, &url(7_000));
    let stream = case.load();
    case.store.stop();
    for host in [0, 2] {
        case.grows_stale(host);
    }
    detour.lead_to(6_380);
    // The replica takes no writes yet.
    let replica = |host: usize| {
        let error = case.says(host)["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        error.contains("is a replica")
    };
    limiter_tests::eventually("an agent meets a replica", || replica(0));
    thread::sleep(Duration::from_millis(100));
    second.promote();
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
}
