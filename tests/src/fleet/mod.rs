//! Builds a fleet: hosts with one address behind a router that spreads a source's packets over them, and a store in
//! another network.
//!
//! ```text
//!                    eth0                eth0 host 0 mgmt0 ── link0 ┐
//! client eth0 ────── router host0 ────────┘                        │
//!                    router host1 ─────── eth0 host 1 mgmt0 ── link1 ┼ store0 (bridge) store
//!                    router host2 ─────── eth0 host 2 mgmt0 ── link2 ┘
//! ```
//!
//! `mgmt0` is not limited. The links to the store are cut and repaired one by one ([`Network::set_link`]).

mod agent;
mod bounds;
mod network;
mod router;
mod sender;

pub use agent::Agent;
pub use bounds::Bucket;
pub use network::{Network, STORE};
pub use sender::{Load, Packet, Sent, Stream};

use std::net::Ipv4Addr;

use crate::testbed::Host;
use serde_json::Value;

use self::router::Router;
use crate::{
    command::{Outcome, limiter},
    files::{Folder, at_driver},
    hosts::{detach_all_of, on},
    number,
};

/// Hosts with limits, and their network.
#[derive(Debug)]
pub struct Fleet {
    /// The hosts and their links.
    pub network: Network,
    router: Router,
    files: Folder,
}

impl Fleet {
    /// A fleet of this number of hosts, without limits.
    pub fn of(hosts: usize) -> Self {
        let network = Network::new(hosts);
        Self {
            router: Router::begin(&network.router, hosts),
            network,
            files: Folder::new(),
        }
    }

    /// A host.
    pub fn host(&self, host: usize) -> &Host {
        &self.network.hosts[host]
    }

    /// Runs `limiter` on a host.
    pub fn limiter(&self, host: usize, arguments: &[&str]) -> Outcome {
        on(self.host(host), || limiter(arguments))
    }

    /// Attaches on a host with a configuration file of this text.
    pub fn attach(&self, host: usize, text: &str) {
        self.configure(host, "attach", text);
    }

    /// Reloads a host's configuration file with this text.
    pub fn reload(&self, host: usize, text: &str) {
        self.configure(host, "reload", text);
    }

    fn configure(&self, host: usize, verb: &str, text: &str) {
        let path = self
            .files
            .write(&format!("host{host}.toml"), at_driver(text));
        let outcome = self.limiter(host, &[verb, "eth0", "--config", &path]);
        outcome.expect(0);
    }

    /// Attaches on each host with this text.
    pub fn attach_all(&self, text: &str) {
        (0..self.network.hosts.len()).for_each(|host| self.attach(host, text));
    }

    /// Runs `limiter` on a host. It must succeed; returns its JSON output.
    pub fn json(&self, host: usize, arguments: &[&str]) -> Value {
        let outcome = self.limiter(host, arguments);
        outcome.expect(0);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// The attachment of a host, from `status --json`.
    pub fn status(&self, host: usize) -> Value {
        self.json(host, &["status", "eth0", "--json"])["interfaces"][0].clone()
    }

    /// A host's state of a source, from `check --json`.
    pub fn check(&self, host: usize, source: Ipv4Addr) -> Value {
        self.json(host, &["check", "eth0", &source.to_string(), "--json"])
    }

    /// Number of packets that each host has passed.
    pub fn passed(&self) -> Vec<u64> {
        (0..self.network.hosts.len())
            .map(|host| number(&self.status(host)["passed"]["packets"]))
            .collect()
    }

    /// Number of packets that all hosts together have passed.
    pub fn admitted(&self) -> u64 {
        self.passed().iter().sum()
    }

    /// Sends packets, and waits for the verdict on the last one.
    pub fn send(&self, load: &Load) -> Sent {
        self.start(load).finish()
    }

    /// Starts to send packets, and returns.
    pub fn start(&self, load: &Load) -> Stream {
        Stream::start(&self.network, load)
    }

    /// Sends all further packets of a source to this host.
    pub fn pin(&self, source: Ipv4Addr, host: usize) {
        self.router.pin(source, host);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.network.hosts.iter().for_each(detach_all_of);
    }
}

/// A source address from a documentation network (RFC 5737) that no host here uses.
pub fn source(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, number)
}
