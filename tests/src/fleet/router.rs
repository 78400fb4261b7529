//! Sets up the router: nftables assigns each packet from the client to one of the hosts before routing.
//!
//! nftables counts packets, not flows, so a source's packets are spread one by one, exactly. Multipath routes would
//! keep a flow on one host.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use crate::testbed::Namespace;

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
        let turns: Vec<_> = (0..hosts)
            .map(|host| format!("{host} : \"host{host}\""))
            .collect();
        router.nft(&format!(
            "add rule netdev router spread fwd to ip saddr map @pinned
             add rule netdev router spread meta protocol {{ ip, ip6 }} fwd to numgen inc mod {hosts} map {{ {} }}",
            turns.join(", ")
        ));
        router
    }

    /// Sends all further packets of a source to one host.
    pub fn pin(&self, source: Ipv4Addr, host: usize) {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        pinned.insert(source, host);
        let all: Vec<_> = pinned
            .iter()
            .map(|(source, host)| format!("{source} : \"host{host}\""))
            .collect();
        // The commands are one transaction, so no packet meets the map between them.
        self.nft(&format!(
            "flush map netdev router pinned\nadd element netdev router pinned {{ {} }}",
            all.join(", ")
        ));
    }

    fn nft(&self, rules: &str) {
        with_input(&self.namespace, &["nft", "-f", "-"], rules);
    }
}
