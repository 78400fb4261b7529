//! The fleet recovers from faults of the store and of the network to it.

use super::{case::Case, fleet};

#[test]
fn host_recovers_after_its_link_is_cut() {
    let fleet = fleet!();
    let case = Case::new(&fleet);
    let stream = case.load();
    fleet.network.cut(2);
    case.grows_stale(2);
    // The two other hosts continue without a gap.
    for host in [0, 1] {
        let says = case.says(host);
        assert!(says["error"].is_null(), "{says}");
    }
    fleet.network.heal(2);
    case.recovered(0..3);
    case.bound_holds();
    case.end(stream);
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
