//! Through which interfaces the packets of a session come.

use std::{collections::HashMap, net::IpAddr};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::{
    address::{AddressAttribute, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
};

use super::Session;
use crate::kernel::error::{Error, Result};

/// Whether packets of the session come through the interface called `name`: the server's address is
/// its own, or that of a VLAN, bridge or bond above it. Where the address is on no interface that
/// packets come in on (loopback, or translated on the way) nothing can be told, and it may be so.
/// What carries a tunnel is not looked for.
pub async fn arrives_on(session: &Session, name: &str) -> Result<bool> {
    let (connection, handle, _) =
        rtnetlink::new_connection().map_err(|error| Error::system("opening netlink", error))?;
    let connection = tokio::spawn(connection);
    let links: Vec<LinkMessage> = handle.link().get().execute().try_collect().await?;
    let addresses: Vec<AddressMessage> = handle.address().get().execute().try_collect().await?;
    connection.abort();
    let addresses: Vec<_> = addresses.iter().filter_map(own_address).collect();
    Ok(Devices::from(links.as_slice()).may_carry(session, &addresses, name))
}

/// Index of the interface, and its address.
fn own_address(message: &AddressMessage) -> Option<(u32, IpAddr)> {
    // The other end's, where the link has two; then the own one is `Local`.
    let mut address = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(local) => address = Some(*local),
            AddressAttribute::Address(other) if address.is_none() => address = Some(*other),
            _ => {}
        }
    }
    Some((message.header.index, address?))
}

/// The interfaces, and which one is above which.
#[derive(Debug, Default)]
struct Devices {
    names: HashMap<String, u32>,
    loopback: Vec<u32>,
    /// From an interface to the one below it: `link` of a VLAN.
    below: Vec<(u32, u32)>,
}

impl From<&[LinkMessage]> for Devices {
    fn from(links: &[LinkMessage]) -> Self {
        let mut devices = Self::default();
        for link in links {
            devices.add(link);
        }
        // The two ends of a veth pair are each other's.
        let all = devices.below.clone();
        devices
            .below
            .retain(|(above, below)| !all.contains(&(*below, *above)));
        devices
    }
}

impl Devices {
    fn add(&mut self, link: &LinkMessage) {
        let index = link.header.index;
        if link.header.flags.contains(LinkFlags::Loopback) {
            self.loopback.push(index);
        }
        // An index in another network namespace is none here.
        let is_elsewhere = link
            .attributes
            .iter()
            .any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_)));
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => {
                    self.names.insert(name.clone(), index);
                }
                LinkAttribute::Link(below) if !is_elsewhere => self.below.push((index, *below)),
                LinkAttribute::Controller(above) => self.below.push((*above, index)),
                _ => {}
            }
        }
    }

    fn may_carry(&self, session: &Session, addresses: &[(u32, IpAddr)], name: &str) -> bool {
        let Some(&wanted) = self.names.get(name) else {
            return false;
        };
        if self.loopback.contains(&wanted) {
            return session.server.is_loopback();
        }
        let zone = session.zone.as_ref().and_then(|zone| self.names.get(zone));
        let on: Vec<u32> = addresses
            .iter()
            .filter(|(index, address)| {
                *address == session.server && zone.is_none_or(|zone| zone == index)
            })
            .map(|(index, _)| *index)
            .collect();
        let is_anywhere = on.iter().all(|index| self.loopback.contains(index));
        let is_local = session.server.is_loopback();
        (is_anywhere && !is_local) || on.iter().any(|index| self.is_over(*index, wanted))
    }

    /// Whether `above` is the interface `wanted`, or gets its packets from it.
    fn is_over(&self, above: u32, wanted: u32) -> bool {
        let mut seen = vec![above];
        let mut next = 0;
        while let Some(&index) = seen.get(next) {
            if index == wanted {
                return true;
            }
            let below = self.below.iter().filter(|(above, _)| *above == index);
            for (_, below) in below {
                if !seen.contains(below) {
                    seen.push(*below);
                }
            }
            next += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// lo; eth0 with VLAN eth0.5; eth1, a port of br0; vpn0.
    fn devices() -> Devices {
        let names = [
            ("lo", 1),
            ("eth0", 2),
            ("eth0.5", 3),
            ("eth1", 4),
            ("br0", 5),
            ("vpn0", 6),
        ];
        Devices {
            names: names
                .into_iter()
                .map(|(name, index)| (name.to_owned(), index))
                .collect(),
            loopback: vec![1],
            below: vec![(3, 2), (5, 4)],
        }
    }

    /// The interfaces that a session to `server` may come through.
    fn through(server: &str, zone: Option<&str>) -> Vec<&'static str> {
        let addresses = [
            (1, "127.0.0.1"),
            (1, "203.0.113.1"),
            (2, "192.0.2.1"),
            (2, "fe80::1"),
            (3, "192.0.2.65"),
            (4, "fe80::1"),
            (5, "192.0.2.129"),
        ];
        let addresses = addresses.map(|(index, text)| (index, text.parse().expect("an address")));
        let session = Session {
            client: [198, 51, 100, 7].into(),
            server: server.parse().expect("an address"),
            server_port: 22,
            zone: zone.map(str::to_owned),
        };
        let devices = devices();
        let all = ["lo", "eth0", "eth0.5", "eth1", "br0", "vpn0", "gone0"];
        all.into_iter()
            .filter(|name| devices.may_carry(&session, &addresses, name))
            .collect()
    }

    #[test]
    fn sessions_come_through_the_interface_of_the_address_and_those_below_it() {
        assert_eq!(through("192.0.2.1", None), ["eth0"]);
        assert_eq!(through("192.0.2.65", None), ["eth0", "eth0.5"]);
        assert_eq!(through("192.0.2.129", None), ["eth1", "br0"]);
        assert_eq!(through("fe80::1", None), ["eth0", "eth1"]);
        assert_eq!(through("fe80::1", Some("eth1")), ["eth1"]);
        assert_eq!(through("127.0.0.1", None), ["lo"]);
    }

    #[test]
    fn an_address_of_no_such_interface_may_come_through_any() {
        let any = ["eth0", "eth0.5", "eth1", "br0", "vpn0"];
        assert_eq!(through("203.0.113.1", None), any, "an address of lo");
        assert_eq!(through("203.0.113.9", None), any, "translated on the way");
    }
}
