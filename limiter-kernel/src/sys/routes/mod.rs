//! The host's addresses and routes, as the program needs them to answer only packets that the host's own stack would
//! answer.
//! They are read by each command that loads a program: see [`limiter_common::abi::routes`].

mod read;

use std::{cmp::Reverse, fs, io, net::IpAddr, thread};

use ipnet::IpNet;
use limiter_common::{
    abi::routes::{ANSWERED, NO_ONE, NO_WAY_BACK, OF_HOST, ROUTES_MAX, Route},
    table::key::{IPV4, IPV6},
};
use limiter_config::names::direction_of;
use rtnetlink::packet_route::route::{RouteHeader, RouteType};

use crate::{Error, Result, sys::Interface};

const TABLE_DEFAULT: u32 = 253;
const TABLE_MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;
const TABLE_LOCAL: u32 = 255;
/// Networks whose addresses the stack accepts on no interface but the loopback: see `ip_route_input_slow`,
/// `ip6_rcv_core` and `tcp_v6_conn_request`.
const NO_ONES: [&str; 7] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/127",
    "::ffff:0:0/96",
    "ff00::/8",
];

/// The host's addresses and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The entries, in the order in which they decide.
    pub entries: Vec<Route>,
    /// The host's addresses.
    pub addresses: Vec<IpNet>,
    /// Index of the interface through which the way back to an IPv4 source must lead; 0: any.
    pub way_back: u32,
    /// Packets that get no answer although the host might answer, with the reason and what to do.
    pub unanswered: Vec<String>,
}

/// An entry of the kernel's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    prefix: IpNet,
    table: u32,
    kind: RouteType,
    metric: u32,
    /// Indices of the interfaces that it leads through.
    through: Vec<u32>,
}

impl Routes {
    /// Those that matter for packets that arrive on `interface`.
    pub fn read(interface: &Interface) -> Result<Self> {
        // The thread has a runtime of its own, because some callers have none. It is in the caller's network namespace.
        let read = thread::scope(|scope| scope.spawn(|| read::all(interface)).join());
        let Ok(read) = read else {
            let stopped = io::Error::other("the thread stopped");
            return Err(Error::system("reading the routes", stopped));
        };
        let (found, rules, receiver) = read?;
        let is_strict = is_strict(direction_of(&receiver.name).0);
        let places = [interface.index, receiver.index];
        Ok(Self::of(&found, rules, places, is_strict))
    }

    /// `places`: indices of the interface, and of the one that receives its packets.
    fn of(found: &[Found], rules: [bool; 2], places: [u32; 2], is_strict: bool) -> Self {
        let receiver = places[1];
        let mut routes = Self {
            way_back: if is_strict { receiver } else { 0 },
            ..Self::default()
        };
        let no_ones = NO_ONES.iter().filter_map(|prefix| prefix.parse().ok());
        let no_ones: Vec<IpNet> = no_ones.collect();
        let entries = no_ones.iter().map(|prefix| entry(*prefix, NO_ONE));
        routes.entries.extend(entries);
        let mut own: Vec<(IpNet, u32)> = (found.iter())
            .filter(|found| found.table == TABLE_LOCAL && is_of(found, &places))
            .filter(|found| !no_ones.iter().any(|wider| wider.contains(&found.prefix)))
            .filter_map(|found| match found.kind {
                RouteType::Local => Some((found.prefix, OF_HOST)),
                RouteType::Broadcast | RouteType::Anycast => Some((found.prefix, NO_ONE)),
                _ => None,
            })
            .collect();
        own.sort_by_key(|(prefix, kind)| (Reverse(prefix.prefix_len()), *prefix, *kind));
        own.dedup_by_key(|(prefix, _)| *prefix);
        let room = ROUTES_MAX as usize - routes.entries.len();
        if own.len() > room {
            own.truncate(room);
            routes.unanswered.push(format!(
                "packets to some of the host's addresses get no answer, because it has more than {room}: remove addresses that it does not need"
            ));
        }
        let addresses = own.iter().filter(|(_, kind)| *kind == OF_HOST);
        routes.addresses = addresses.map(|(prefix, _)| *prefix).collect();
        let own = own.iter().map(|(prefix, kind)| entry(*prefix, *kind));
        routes.entries.extend(own);
        for (family, has_rules) in [(IPV4, rules[0]), (IPV6, rules[1])] {
            let ways = ways_back(found, family, receiver, is_strict && family == IPV4);
            let room = ROUTES_MAX as usize - routes.entries.len();
            let why = if has_rules {
                "has rules for its routes (`ip rule`)".to_owned()
            } else if ways.len() > room {
                format!("has more than {room} routes")
            } else {
                routes.entries.extend(ways);
                continue;
            };
            routes.unanswered.push(format!(
                "packets over IPv{family} get no answer, because the host {why}, and without forwarding the kernel looks up no route for a program: `sysctl net.ipv{family}.conf.lo.forwarding=1` makes it do so, or leave proof out"
            ));
        }
        routes
    }
}

/// Returns true if an entry is in force for packets that arrive at these places: each link has its own link-local
/// addresses.
fn is_of(found: &Found, places: &[u32]) -> bool {
    match found.prefix.addr() {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            found.through.iter().any(|index| places.contains(index))
        }
        _ => true,
    }
}

/// For each prefix, whether a source in it has a way back. Only prefixes that differ from the next longer one are left.
fn ways_back(found: &[Found], family: u32, receiver: u32, is_strict: bool) -> Vec<Route> {
    let main = [TABLE_MAIN, TABLE_DEFAULT];
    let mut all: Vec<_> = found
        .iter()
        .filter(|found| main.contains(&found.table) && family_of(found.prefix) == family)
        .collect();
    // The table main comes first, then the lowest metric.
    all.sort_by_key(|found| (found.prefix, Reverse(found.table), found.metric));
    let mut ways: Vec<(IpNet, u32)> = Vec::new();
    for group in all.chunk_by(|route, other| route.prefix == other.prefix) {
        let best = group
            .iter()
            .take_while(|found| (found.table, found.metric) == (group[0].table, group[0].metric));
        let leads = best.clone().any(|found| {
            found.kind == RouteType::Unicast && (!is_strict || found.through.contains(&receiver))
        });
        ways.push((group[0].prefix, if leads { ANSWERED } else { NO_WAY_BACK }));
    }
    ways.sort_by_key(|(prefix, _)| prefix.prefix_len());
    let mut kept: Vec<(IpNet, u32)> = Vec::new();
    for (prefix, kind) in ways {
        let around = kept.iter().rev().find(|(wider, _)| wider.contains(&prefix));
        if around.map_or(NO_WAY_BACK, |(_, kind)| *kind) != kind {
            kept.push((prefix, kind));
        }
    }
    kept.iter()
        .rev()
        .map(|(prefix, kind)| entry(*prefix, *kind))
        .collect()
}

fn family_of(prefix: IpNet) -> u32 {
    if prefix.addr().is_ipv4() { IPV4 } else { IPV6 }
}

fn entry(prefix: IpNet, kind: u32) -> Route {
    let mut bytes = [0; 16];
    match prefix.addr() {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    Route::new(bytes, family_of(prefix), prefix.prefix_len().into(), kind)
}

/// Returns true if the kernel wants the way back to an IPv4 source to lead through the interface that its packet came
/// from, or if this process may not see that, as in the units of systemd.
fn is_strict(interface: &str) -> bool {
    let value = |name: &str| -> u32 {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(1)
    };
    value("all").max(value(interface)) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH0: u32 = 2;
    const ETH1: u32 = 3;

    fn found(prefix: &str, table: u32, kind: RouteType, metric: u32, through: &[u32]) -> Found {
        Found {
            prefix: prefix.parse().expect("a prefix"),
            table,
            kind,
            metric,
            through: through.to_vec(),
        }
    }

    fn host() -> Vec<Found> {
        let local = |prefix, index| found(prefix, TABLE_LOCAL, RouteType::Local, 0, &[index]);
        let main =
            |prefix, metric, index| found(prefix, TABLE_MAIN, RouteType::Unicast, metric, &[index]);
        let broadcast = RouteType::Broadcast;
        vec![
            local("127.0.0.0/8", 1),
            local("192.0.2.1/32", ETH0),
            found("192.0.2.255/32", TABLE_LOCAL, broadcast, 0, &[ETH0]),
            local("198.18.0.1/32", ETH1),
            local("::1/128", 1),
            local("fe80::1/128", ETH0),
            local("fe80::2/128", ETH1),
            main("0.0.0.0/0", 100, ETH0),
            main("0.0.0.0/0", 200, ETH1),
            main("192.0.2.0/24", 0, ETH0),
            main("198.18.0.0/24", 0, ETH1),
            main("fe80::/64", 256, ETH0),
            found("10.0.0.0/8", TABLE_MAIN, RouteType::BlackHole, 0, &[]),
        ]
    }

    fn kind(routes: &Routes, address: &str) -> u32 {
        let address: IpNet = format!("{address}/{}", if address.contains(':') { 128 } else { 32 })
            .parse()
            .expect("an address");
        let wanted = entry(address, 0);
        let mut entries = routes.entries.iter();
        let found = entries.find(|route| route.has(&wanted.words, wanted.family));
        found.map_or(0, |route| route.kind)
    }

    #[test]
    fn addresses_and_ways_back_are_known_by_the_longest_prefix() {
        for (is_strict, of_other) in [(false, ANSWERED), (true, NO_WAY_BACK)] {
            let routes = Routes::of(&host(), [false; 2], [ETH0, ETH0], is_strict);
            for (address, wanted) in [
                ("192.0.2.1", OF_HOST),
                ("198.18.0.1", OF_HOST),
                ("fe80::1", OF_HOST),
                ("fe80::2", ANSWERED),
                ("127.0.0.1", NO_ONE),
                ("::1", NO_ONE),
                ("192.0.2.255", NO_ONE),
                ("224.0.0.1", NO_ONE),
                ("192.0.2.7", ANSWERED),
                ("203.0.113.1", ANSWERED),
                ("198.18.0.7", of_other),
                ("2001:db8::1", 0),
            ] {
                assert_eq!(kind(&routes, address), wanted, "{address}, {is_strict}");
            }
            let blackhole = kind(&routes, "10.1.2.3");
            assert_eq!(blackhole, NO_WAY_BACK, "{is_strict}");
            assert_eq!(routes.way_back, if is_strict { ETH0 } else { 0 });
            assert_eq!((routes.addresses.len(), routes.unanswered.len()), (3, 0));
        }
    }

    #[test]
    fn routes_that_differ_in_nothing_take_no_room_and_too_many_are_left_out_and_reported() {
        let mut many = host();
        let more = |kind, from: u8| {
            let prefix = move |number: u8| format!("{}.{number}.0.0/16", from + number % 2);
            (0..100_u8).map(move |number| found(&prefix(number), TABLE_MAIN, kind, 0, &[ETH0]))
        };
        many.extend(more(RouteType::Unicast, 30));
        let routes = Routes::of(&many, [false; 2], [ETH0, ETH0], false);
        assert_eq!(kind(&routes, "30.2.0.1"), ANSWERED);
        assert!(routes.entries.len() < 20, "{}", routes.entries.len());
        many.extend(more(RouteType::Unreachable, 40));
        many.extend(more(RouteType::Unreachable, 50));
        let routes = Routes::of(&many, [false; 2], [ETH0, ETH0], false);
        assert_eq!(
            (kind(&routes, "30.2.0.1"), kind(&routes, "192.0.2.1")),
            (0, OF_HOST)
        );
        assert!(
            routes.unanswered[0].contains("IPv4"),
            "{:?}",
            routes.unanswered
        );
        let routes = Routes::of(&host(), [true, false], [ETH0, ETH0], false);
        assert_eq!(
            (kind(&routes, "30.2.0.1"), kind(&routes, "fe80::9")),
            (0, ANSWERED)
        );
        assert!(
            routes.unanswered[0].contains("ip rule"),
            "{:?}",
            routes.unanswered
        );
    }
}
