//! Three hosts with a shared limit, real XDP and a real store admit the rate of one host.

use std::{net::Ipv4Addr, time::Duration};

use limiter_tests::{
    fleet::{Agent, Bucket, Fleet, Load, STORE, Sent, source},
    redis::{Redis, Setup},
    schema,
};

/// The limit of the whole fleet on a source.
pub const LIMIT: Bucket = Bucket {
    rate: 20,
    burst: 10,
};

/// The password of the store. Without one, Redis refuses other hosts.
pub const PASSWORD: &str = "for-tests";

/// The settings of each host.
pub fn limits() -> String {
    limits_of(LIMIT)
}

/// The settings of each host, with another limit.
pub fn limits_of(Bucket { rate, burst }: Bucket) -> String {
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

/// URL of the store for agents.
pub fn url(port: u16) -> String {
    format!("redis://:{PASSWORD}@{STORE}:{port}")
}

/// Starts an agent on each host, and waits until the agents know of each other.
pub fn agents(fleet: &Fleet, store: &Redis<'_>) -> Vec<Agent> {
    let url = url(store.port);
    let agents: Vec<Agent> = (0..fleet.size())
        .map(|host| fleet.agent(host, &url, &[]))
        .collect();
    fleet.wait_until_all_agents_see(fleet.size() as u64);
    agents
}

/// Makes three hosts with these settings. Returns from the test if the machine cannot run it.
macro_rules! fleet {
    ($settings:expr) => {{
        limiter_tests::need_kernel!();
        limiter_tests::need_redis!();
        if !limiter_tests::need::program(module_path!(), "nft") {
            return;
        }
        let fleet = limiter_tests::fleet::Fleet::of(3);
        fleet.attach_all($settings);
        fleet
    }};
}
pub(crate) use fleet;

/// Panics unless all hosts together have passed as many packets as one host would pass, to within a twentieth.
fn expect_rate_of_one(fleet: &Fleet, sent: &Sent, source: Ipv4Addr) {
    let due = LIMIT.tokens(sent.longest());
    let admitted = fleet.admitted() as f64;
    println!(
        "{source}: {admitted} of {due:.0} due in {:.1} s, by host {:?}",
        sent.longest() as f64 / 1e9,
        fleet.passed()
    );
    assert!(
        (due * 0.95..=due * 1.05).contains(&admitted),
        "{admitted} packets passed, one host would pass {due}"
    );
}

/// The source's packets reach all hosts.
#[test]
fn three_hosts_together_admit_the_rate_of_one() {
    let fleet = fleet!(&limits());
    let store = store(&fleet);
    let agents = agents(&fleet, &store);
    let sent = fleet.send(&Load::of(source(7), 300, Duration::from_secs(30)));
    for agent in &agents {
        println!("{}", agent.printed());
    }
    expect_rate_of_one(&fleet, &sent, source(7));
    if schema::has_validator("three_hosts_together_admit_the_rate_of_one") {
        let status = fleet.json(0, &["status", "eth0", "--json"]);
        assert!(status["interfaces"][0]["fleet"].is_object(), "{status:#}");
        assert_eq!(schema::faults("status", &status), "", "{status:#}");
    }
}
