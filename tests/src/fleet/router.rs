//! Sets up the router: nftables assigns each packet from the client to one of the hosts before routing.
//!
//! nftables counts packets, not flows, so a source's packets are spread one by one, exactly. Multipath routes would
//! keep a flow on one host.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use limiter_user::testbed::Namespace;

use super::network::with_input;

/// The rules of a router with the interfaces `eth0`, `host0`, `host1` and so on.
#[derive(Debug)]
pub struct Router {
    namespace: Namespace,
    pinned: Mutex<BTreeMap<Ipv4Addr, usize>>,
}

impl Router {
    /// Spreads packets evenly over `hosts` hosts.
    pub fn begin(namespace: &Namespace, hosts: usize) -> Self {
        let router = Self {
            namespace: namespace.clone(),
            pinned: Mutex::default(),
        };
        router.nft(
            "table netdev router {
                 map pinned { type ipv4_addr : iface_index; }
                 chain spread { type filter hook ingress device eth0 priority 0; policy drop; }
             }",
        );
        router.spread(&vec![1; hosts]);
        router
    }

    /// Gives each host as many packets in a row as its weight, in turns. The first turn begins at the first host.
    pub fn spread(&self, weights: &[u32]) {
        let hosts = weights.iter().enumerate();
        let turns: Vec<_> = hosts
            .flat_map(|(host, weight)| (0..*weight).map(move |_| host))
            .enumerate()
            .map(|(turn, host)| format!("{turn} : \"host{host}\""))
            .collect();
        assert!(!turns.is_empty(), "no host is left");
        self.nft(&format!(
            "flush chain netdev router spread
             add rule netdev router spread fwd to ip saddr map @pinned
             add rule netdev router spread meta protocol {{ ip, ip6 }} fwd to numgen inc mod {} map {{ {} }}",
            turns.len(),
            turns.join(", ")
        ));
    }

    /// Sends all further packets of a source to one host.
    pub fn pin(&self, source: Ipv4Addr, host: usize) {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        pinned.insert(source, host);
        let all: Vec<_> = pinned
            .iter()
            .map(|(source, host)| format!("{source} : \"host{host}\""))
            .collect();
        // One transaction: no packet meets the map between the two commands.
        self.nft(&format!(
            "flush map netdev router pinned\nadd element netdev router pinned {{ {} }}",
            all.join(", ")
        ));
    }

    fn nft(&self, rules: &str) {
        with_input(&self.namespace, &["nft", "-f", "-"], rules);
    }
}
