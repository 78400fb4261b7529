//! A fleet goes on with the promoted replica of its store.

use limiter_tests::{
    eventually,
    fleet::{Agent, STORE},
    postgres::{DATABASE, PASSWORD},
};

use super::case::{Case, fleet, limits};

/// Agents know the addresses of both servers. Until one is a primary, each host's limits hold alone.
#[test]
fn hosts_share_again_after_a_failover_to_the_replica() {
    let fleet = fleet!(&limits());
    let mut case = Case::without_agents(&fleet);
    let replica = case.store.replica();
    let url = format!(
        "postgres://{DATABASE}:{PASSWORD}@{STORE}:{},{STORE}:{}/{DATABASE}",
        case.store.port, replica.port
    );
    let agent = |host| {
        let name = format!("host-{host}");
        Agent::start(fleet.host(host), &url, &["--host", &name])
    };
    case.agents = (0..3).map(agent).collect();
    for host in 0..3 {
        eventually("all hosts are members", || case.says(host)["hosts"] == 3);
    }
    let stream = case.load();
    case.bound_holds();
    case.store.stop();
    for host in 0..3 {
        let why = case.grows_stale(host, "is a replica");
        assert!(!why.contains(PASSWORD), "{why}");
    }
    replica.promote();
    case.recovers();
    case.end(stream);
}
