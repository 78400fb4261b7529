//! Reads the kernel's routes and rules by netlink.

use std::net::{Ipv4Addr, Ipv6Addr};

use futures_util::{Stream, TryStreamExt};
use ipnet::{Ipv4Net, Ipv6Net};
use rtnetlink::{
    Error, Handle, IpVersion, RouteMessageBuilder,
    packet_route::{
        AddressFamily,
        route::{RouteAddress, RouteAttribute, RouteMessage},
        rule::{RuleAttribute, RuleMessage},
    },
};

use super::Found;
use crate::{
    Failed as _,
    sys::{Interface, interface, netlink},
};

/// Priorities of the rules that every host has (`ip rule`).
const RULES: [u32; 3] = [0, 32_766, 32_767];

/// All routes, whether there are rules of the user's own for IPv4 and IPv6, and the interface that receives packets of
/// `interface`: itself, or the bond or bridge above it.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn all(
    interface: &Interface,
) -> crate::Result<(Vec<Found>, [bool; 2], Interface)> {
    let mut receiver = interface.clone();
    if let Some(master) = interface.master {
        let mut others = interface::all().await?.into_iter();
        receiver = others
            .find(|other| other.index == master)
            .unwrap_or(receiver);
    }
    let asked = netlink::ask(async |handle| {
        let ipv4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let ipv6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let (mut found, first) = family(&handle, ipv4, IpVersion::V4).await?;
        let (others, second) = family(&handle, ipv6, IpVersion::V6).await?;
        found.extend(others);
        Ok::<_, Error>((found, [first, second]))
    });
    let (found, rules) = asked.await.failed("opening netlink")??;
    Ok((found, rules, receiver))
}

/// The routes of one family, and whether there are rules of the user's own.
async fn family(
    handle: &Handle,
    question: RouteMessage,
    version: IpVersion,
) -> Result<(Vec<Found>, bool), Error> {
    let routes = collect(handle.route().get(question).execute()).await?;
    let rules = collect(handle.rule().get(version).execute()).await?;
    let found = routes.iter().filter_map(describe).collect();
    Ok((found, rules.iter().any(is_own)))
}

fn is_own(rule: &RuleMessage) -> bool {
    let priority = rule
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RuleAttribute::Priority(priority) => Some(*priority),
            _ => None,
        });
    !RULES.contains(&priority.unwrap_or(0))
}

/// The answers. A kernel without IPv6 has none.
async fn collect<T>(answers: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    match answers.try_collect().await {
        Err(Error::NetlinkError(error))
            if [libc::EAFNOSUPPORT, libc::EOPNOTSUPP].contains(&error.raw_code().abs()) =>
        {
            Ok(Vec::new())
        }
        collected => collected,
    }
}

fn describe(route: &RouteMessage) -> Option<Found> {
    let length = route.header.destination_prefix_length;
    let mut found = Found {
        prefix: match route.header.address_family {
            AddressFamily::Inet => Ipv4Net::default().into(),
            AddressFamily::Inet6 => Ipv6Net::default().into(),
            _ => return None,
        },
        table: route.header.table.into(),
        kind: route.header.kind,
        metric: 0,
        through: Vec::new(),
    };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => {
                found.prefix = Ipv4Net::new(*address, length).ok()?.into();
            }
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => {
                found.prefix = Ipv6Net::new(*address, length).ok()?.into();
            }
            RouteAttribute::Table(table) => found.table = *table,
            RouteAttribute::Priority(metric) => found.metric = *metric,
            RouteAttribute::Oif(index) => found.through.push(*index),
            RouteAttribute::MultiPath(hops) => {
                found
                    .through
                    .extend(hops.iter().map(|hop| hop.interface_index));
            }
            _ => {}
        }
    }
    Some(found)
}
