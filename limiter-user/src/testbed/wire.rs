//! Two hosts and the cable between them.

use std::{fs, net::IpAddr, os::fd::AsRawFd};

use futures_util::TryStreamExt;
use rtnetlink::{
    Handle, LinkMessageBuilder, LinkUnspec, LinkVeth,
    packet_route::{
        address::{AddressAttribute, AddressFlags},
        link::{LinkAttribute, LinkMessage},
        neighbour::NeighbourState,
    },
};

use super::{Error, Namespace};

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub IpAddr, pub u8);

/// A host: a namespace with one interface, `eth0`.
#[derive(Clone, Debug)]
pub struct Host {
    /// The host's namespace.
    pub namespace: Namespace,
    /// Index of the host's `eth0`.
    pub index: u32,
    /// Hardware address of the host's `eth0`.
    pub mac: [u8; 6],
}

/// Name of every host's interface.
pub const INTERFACE: &str = "eth0";

/// Two hosts joined by a veth pair.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The first host.
    pub left: Host,
    /// The second host.
    pub right: Host,
}

impl Pair {
    /// Creates two hosts with these addresses. They know each other's hardware addresses, so that the wire carries
    /// only intended traffic. A host without an IPv6 address has no IPv6 at all.
    pub fn new(left: &[Address], right: &[Address]) -> Result<Self, Error> {
        let namespaces = (Namespace::new()?, Namespace::new()?);
        let other = namespaces.1.file().as_raw_fd();
        namespaces
            .0
            .block_on(|| async move { plug(other).await })??;
        let pair = Self {
            left: bring_up(namespaces.0, left)?,
            right: bring_up(namespaces.1, right)?,
        };
        introduce(&pair.left, &pair.right, right)?;
        introduce(&pair.right, &pair.left, left)?;
        Ok(pair)
    }
}

fn netlink(what: &'static str) -> impl Fn(rtnetlink::Error) -> Error {
    move |source| Error::Netlink(what, source)
}

fn connect() -> Result<Handle, Error> {
    let (connection, handle, _) =
        rtnetlink::new_connection().map_err(|error| Error::system("opening netlink", error))?;
    tokio::spawn(connection);
    Ok(handle)
}

/// Makes the pair in this namespace, and moves its far end into the namespace of the descriptor `other`.
async fn plug(other: i32) -> Result<(), Error> {
    const FAR: &str = "far";
    let links = connect()?.link();
    links
        .add(LinkVeth::new(INTERFACE, FAR).build())
        .execute()
        .await
        .map_err(netlink("making a veth pair"))?;
    let far = LinkMessageBuilder::<LinkUnspec>::new()
        .index(find(&links, FAR).await?.header.index)
        .name(INTERFACE)
        .setns_by_fd(other)
        .build();
    links
        .set(far)
        .execute()
        .await
        .map_err(netlink("moving one end of a veth pair"))
}

async fn find(links: &rtnetlink::LinkHandle, name: &str) -> Result<LinkMessage, Error> {
    let found = links.get().match_name(name).execute().try_next().await;
    found
        .map_err(netlink("looking for an interface"))?
        .ok_or_else(|| Error::system("looking for an interface", std::io::ErrorKind::NotFound))
}

fn bring_up(namespace: Namespace, addresses: &[Address]) -> Result<Host, Error> {
    let wants_ipv6 = addresses
        .iter()
        .any(|Address(address, _)| address.is_ipv6());
    let link = namespace.block_on(|| async move {
        quieten(wants_ipv6)?;
        let handle = connect()?;
        let link = find(&handle.link(), INTERFACE).await?;
        for address in addresses {
            add_address(&handle, link.header.index, *address).await?;
        }
        let up = LinkMessageBuilder::<LinkUnspec>::new()
            .index(link.header.index)
            .up()
            .build();
        handle
            .link()
            .set(up)
            .execute()
            .await
            .map_err(netlink("bringing an interface up"))?;
        Ok(link)
    })??;
    let mac = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Address(address) => <[u8; 6]>::try_from(address.as_slice()).ok(),
            _ => None,
        });
    Ok(Host {
        namespace,
        index: link.header.index,
        mac: mac.unwrap_or_default(),
    })
}

/// Keeps the kernel from sending packets on its own: no unwanted IPv6, no link-local address, no router solicitations.
fn quieten(wants_ipv6: bool) -> Result<(), Error> {
    let settings: &[(&str, &str)] = if wants_ipv6 {
        &[
            ("addr_gen_mode", "1"),
            ("router_solicitations", "0"),
            ("accept_dad", "0"),
        ]
    } else {
        &[("disable_ipv6", "1")]
    };
    for (name, value) in settings {
        let path = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/{name}");
        match fs::write(path, value) {
            // A kernel without IPv6 sends nothing.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::system("quietening an interface", error));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn add_address(handle: &Handle, index: u32, address: Address) -> Result<(), Error> {
    let mut request = handle.address().add(index, address.0, address.1);
    // Without duplicate address detection, the address works at once, and no packet is sent for it.
    request
        .message_mut()
        .attributes
        .push(AddressAttribute::Flags(AddressFlags::Nodad));
    request
        .execute()
        .await
        .map_err(netlink("adding an address"))
}

/// Sets the hardware address of `other` on `host`.
fn introduce(host: &Host, other: &Host, addresses: &[Address]) -> Result<(), Error> {
    let (index, mac) = (host.index, other.mac);
    host.namespace.block_on(|| async move {
        let handle = connect()?;
        for Address(address, _) in addresses {
            handle
                .neighbours()
                .add(index, *address)
                .link_layer_address(&mac)
                .state(NeighbourState::Permanent)
                .execute()
                .await
                .map_err(netlink("adding a neighbour"))?;
        }
        Ok(())
    })?
}
