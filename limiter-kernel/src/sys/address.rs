//! Addresses of this network namespace, as netlink reports them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::{
        address::{AddressAttribute, AddressMessage},
        route::{RouteAddress, RouteAttribute, RouteMessage, RouteVia},
    },
};

use crate::{Failed, Result, sys::netlink};

/// The addresses of all interfaces.
pub async fn own() -> Result<Vec<IpAddr>> {
    let all = netlink::ask(async |handle| handle.address().get().execute().try_collect().await);
    let all: Vec<AddressMessage> = all.await.failed("opening netlink")??;
    let attributes = all.iter().flat_map(|message| &message.attributes);
    // Of a link between two addresses, `Local` is the own one, and `Address` that of the other end, which is needed too.
    let addresses = attributes.filter_map(|attribute| match attribute {
        AddressAttribute::Local(address) | AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    Ok(addresses.collect())
}

/// The gateways of all default routes, in all tables.
pub async fn gateways() -> Result<Vec<IpAddr>> {
    let questions = [
        RouteMessageBuilder::<Ipv4Addr>::new().build(),
        RouteMessageBuilder::<Ipv6Addr>::new().build(),
    ];
    let mut found = Vec::new();
    for question in questions {
        let all =
            netlink::ask(async |handle| handle.route().get(question).execute().try_collect().await);
        let all: Vec<RouteMessage> = all.await.failed("opening netlink")??;
        let defaults = all
            .iter()
            .filter(|route| route.header.destination_prefix_length == 0);
        found.extend(defaults.flat_map(|route| hops(&route.attributes)));
    }
    Ok(found)
}

fn hops(attributes: &[RouteAttribute]) -> Vec<IpAddr> {
    let mut hops = Vec::new();
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) => hops.push((*v4).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) => hops.push((*v6).into()),
            RouteAttribute::Via(RouteVia::Inet(v4)) => hops.push((*v4).into()),
            RouteAttribute::Via(RouteVia::Inet6(v6)) => hops.push((*v6).into()),
            RouteAttribute::MultiPath(ways) => {
                hops.extend(ways.iter().flat_map(|way| self::hops(&way.attributes)));
            }
            _ => {}
        }
    }
    hops
}
