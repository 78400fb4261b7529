//! A fleet: hosts with one address behind a router that spreads what a source sends over them, and a store that all
//! of them reach by another way.
//!
//! ```text
//!                    eth0                eth0 host 0 mgmt0 ── link0 ┐
//! client eth0 ────── router host0 ────────┘                        │
//!                    router host1 ─────── eth0 host 1 mgmt0 ── link1 ┼ store0 (bridge) store
//!                    router host2 ─────── eth0 host 2 mgmt0 ── link2 ┘
//! ```
//!
//! `mgmt0` is not limited. The links to the store are cut and healed one by one ([`Network::cut`]).

mod agent;
mod bounds;
mod detour;
mod network;
mod router;
mod sender;

pub use agent::Agent;
pub use bounds::{Bucket, between};
pub use detour::Detour;
pub use network::{Network, STORE};
pub use sender::{Load, Packet, Sent, Stream};

use std::net::Ipv4Addr;

use limiter_user::testbed::Host;
use serde_json::Value;

use self::router::Router;
use crate::{
    command::{Outcome, limiter},
    eventually,
    files::Folder,
    hosts::{detach_all_of, on},
    number,
};

/// Hosts with limits, and what reaches them.
#[derive(Debug)]
pub struct Fleet {
    /// The hosts, and what joins them.
    pub network: Network,
    router: Router,
    files: Folder,
}

impl Fleet {
    /// So many hosts, without limits.
    #[must_use]
    pub fn of(hosts: usize) -> Self {
        let network = Network::new(hosts);
        Self {
            router: Router::begin(&network.router, hosts),
            network,
            files: Folder::new(),
        }
    }

    /// A host.
    #[must_use]
    pub fn host(&self, host: usize) -> &Host {
        &self.network.hosts[host]
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.network.hosts.len()
    }

    /// Runs `limiter` on a host.
    #[must_use]
    pub fn limiter(&self, host: usize, arguments: &[&str]) -> Outcome {
        on(self.host(host), || limiter(arguments))
    }

    /// Attaches on a host what a configuration file with this text says.
    pub fn attach(&self, host: usize, text: &str) {
        let path = self.files.write(&format!("host{host}.toml"), text);
        let outcome = self.limiter(host, &["attach", "--config", &path]);
        outcome.expect(0);
    }

    /// Puts a configuration file with this text in force on a host that has another one.
    pub fn reload(&self, host: usize, text: &str) {
        let path = self.files.write(&format!("host{host}.toml"), text);
        let outcome = self.limiter(host, &["reload", "eth0", "--config", &path]);
        outcome.expect(0);
    }

    /// The same on each of them.
    pub fn attach_all(&self, text: &str) {
        (0..self.size()).for_each(|host| self.attach(host, text));
    }

    /// Runs `limiter` on a host, which must succeed, and reads the JSON that it prints.
    #[must_use]
    pub fn json(&self, host: usize, arguments: &[&str]) -> Value {
        let outcome = self.limiter(host, arguments);
        outcome.expect(0);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// The attachment of a host, from `status --json`.
    #[must_use]
    pub fn status(&self, host: usize) -> Value {
        self.json(host, &["status", "eth0", "--json"])["interfaces"][0].clone()
    }

    /// What a host knows of a source, from `check --json`.
    #[must_use]
    pub fn check(&self, host: usize, source: Ipv4Addr) -> Value {
        self.json(host, &["check", "eth0", &source.to_string(), "--json"])
    }

    /// Packets that have come to each host.
    #[must_use]
    pub fn seen(&self) -> Vec<u64> {
        self.packets("seen")
    }

    /// Packets that each host has let through.
    #[must_use]
    pub fn passed(&self) -> Vec<u64> {
        self.packets("passed")
    }

    /// Packets that all of them together have let through.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.passed().iter().sum()
    }

    fn packets(&self, verdict: &str) -> Vec<u64> {
        (0..self.size())
            .map(|host| number(&self.status(host)[verdict]["packets"]))
            .collect()
    }

    /// Sends, and waits until the last packet has been decided about.
    #[must_use]
    pub fn send(&self, load: &Load) -> Sent {
        self.start(load).finish()
    }

    /// Starts to send: what happens meanwhile, is up to the test.
    #[must_use]
    pub fn start(&self, load: &Load) -> Stream {
        Stream::start(&self.network, load)
    }

    /// Spreads packets over the hosts one by one, by these weights: of a round of packets, so many in a row go to each.
    /// A host of weight 0 gets none: one that is to be down first, for each packet that is sent must come to a host.
    pub fn spread(&self, weights: &[u32]) {
        assert_eq!(weights.len(), self.size());
        self.router.spread(weights);
    }

    /// From now on a source's packets come to this host only.
    pub fn pin(&self, source: Ipv4Addr, host: usize) {
        assert!(host < self.size());
        self.router.pin(source, Some(host));
    }

    /// From now on a source's packets are spread again.
    pub fn unpin(&self, source: Ipv4Addr) {
        self.router.pin(source, None);
    }

    /// Starts `limiter agent` on a host, with this store.
    #[must_use]
    pub fn agent(&self, host: usize, store: &str, more: &[&str]) -> Agent {
        Agent::start(self.host(host), store, more)
    }

    /// Waits until each host's agent knows that so many are in the fleet.
    pub fn wait_until_all_agents_see(&self, hosts: u64) {
        for host in 0..self.size() {
            let what = format!("host {host} sees a fleet of {hosts}");
            eventually(&what, || {
                self.status(host)["fleet"]["hosts"].as_u64() == Some(hosts)
            });
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.network.hosts.iter().for_each(detach_all_of);
    }
}

/// A source to send from: one of a network for documentation (RFC 5737) that nobody here has an address of.
#[must_use]
pub fn source(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}

/// Where the store is, as a URL wants it.
#[must_use]
pub fn store_url(port: u16) -> String {
    format!("redis://{STORE}:{port}")
}
