//! One limit over three hosts: real XDP on each, a real store, and a router that spreads a source's packets.

use std::{net::Ipv4Addr, time::Duration};

use limiter_tests::{
    fleet::{Agent, Bucket, Fleet, Load, STORE, Sent, source, store_url},
    need, need_kernel, need_redis,
    redis::{Redis, Setup},
    schema,
};

/// The limit of the whole fleet on a source.
const LIMIT: Bucket = Bucket {
    rate: 20,
    burst: 10,
};

/// Without a password, Redis refuses other hosts.
pub const PASSWORD: &str = "for-tests";

fn limits() -> String {
    let Bucket { rate, burst } = LIMIT;
    format!(
        "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[[limit]]\nname = \"all\"\nscope = \"fleet\"\n\
         rate = \"{rate}/s\"\nburst = {burst}\n"
    )
}

/// A store beside the fleet's hosts.
pub fn store(fleet: &Fleet) -> Redis<'_> {
    Redis::start_as(Setup {
        host: Some(&fleet.network.store),
        address: Some(STORE.to_string()),
        password: Some(PASSWORD.to_owned()),
        ..Setup::default()
    })
}

/// An agent on each host; the agents know of one another.
pub fn agents(fleet: &Fleet, store: &Redis<'_>) -> Vec<Agent> {
    let url = store_url(store.port).replace("//", &format!("//:{PASSWORD}@"));
    let agents: Vec<Agent> = (0..fleet.size())
        .map(|host| fleet.agent(host, &url, &[]))
        .collect();
    fleet.wait_until_all_agents_see(fleet.size() as u64);
    agents
}

/// A fleet that shares its limit; none if this machine lacks something.
fn fleet(test: &str) -> Option<Fleet> {
    if !need::program(test, "nft") {
        return None;
    }
    let fleet = Fleet::of(3);
    fleet.attach_all(&limits());
    Some(fleet)
}

/// Panics unless all hosts together have passed as much as one host would have, to within a twentieth.
fn as_one_host(fleet: &Fleet, sent: &Sent, source: Ipv4Addr) {
    let due = LIMIT.tokens(sent.longest());
    let admitted = fleet.admitted() as f64;
    println!(
        "{source}: {admitted} of {due:.0} due in {:.1} s, by host {:?}",
        sent.longest() as f64 / 1e9,
        fleet.passed()
    );
    assert!(
        (due * 0.95..=due * 1.05).contains(&admitted),
        "{admitted} were let through, {due} were due"
    );
}

/// The proof of the fleet: a source that reaches all hosts gets the rate of one host.
#[test]
fn three_hosts_admit_what_one_does() {
    need_kernel!();
    need_redis!();
    let Some(fleet) = fleet("three_hosts_admit_what_one_does") else {
        return;
    };
    let store = store(&fleet);
    let agents = agents(&fleet, &store);
    let sent = fleet.send(&Load::of(source(7), 300, Duration::from_secs(30)));
    for agent in &agents {
        println!("{}", agent.said());
    }
    as_one_host(&fleet, &sent, source(7));
    if schema::has_validator("three_hosts_admit_what_one_does") {
        let status = fleet.json(0, &["status", "eth0", "--json"]);
        assert!(status["interfaces"][0]["fleet"].is_object(), "{status:#}");
        assert_eq!(schema::faults("status", &status), "", "{status:#}");
    }
}
