//! Sets up the kernel's own limiters as their manuals advise.
//!
//! They have room for all sources, keep buckets until these are refilled, and drop packets as early as possible.

use super::{
    case::{Case, Family, Verdict},
    mix::Traffic,
};

/// nftables: a dynamic set on the ingress hook of the device.
pub fn nft_ingress(case: Case) -> String {
    nft(case, "netdev", "hook ingress device \"eth0\" priority 0")
}

/// nftables: a dynamic set before connection tracking and routing.
pub fn nft_prerouting(case: Case) -> String {
    nft(case, "inet", PREROUTING)
}

/// nftables: the limits of `limiter-nested`, at the same place.
pub fn nft_nested(case: Case) -> String {
    let network = match case.family {
        Family::Ipv4 => "ip saddr and 255.255.255.0",
        Family::Ipv6 => "ip6 saddr and ffff:ffff:ffff::",
    };
    let wide = "limit rate over 1000000/second burst 1000000 packets";
    let rules = format!("update @networks {{ {network} {wide} }} drop; {wide} drop;");
    table(case, "inet", PREROUTING, Some("networks"), &rules)
}

const PREROUTING: &str = "hook prerouting priority raw";

fn nft(case: Case, family: &str, hook: &str) -> String {
    table(case, family, hook, None, "")
}

/// A limit by source, and then `rules`, which may use one more set.
fn table(case: Case, family: &str, hook: &str, other: Option<&str>, rules: &str) -> String {
    let (kind, key) = match case.family {
        Family::Ipv4 => ("ipv4_addr", "ip saddr"),
        Family::Ipv6 => ("ipv6_addr", "ip6 saddr and ffff:ffff:ffff:ffff::"),
    };
    let (rate, timeout) = match case.verdict {
        Verdict::Dropped => ("rate over 1/hour burst 1 packets", "1h"),
        Verdict::Passed => ("rate over 1000000/second burst 1000000 packets", "1m"),
    };
    let size = case.sources.capacity();
    let set = |name: &str| {
        format!(
            "set {name} {{ type {kind}; size {size}; flags dynamic, timeout; timeout {timeout}; }};"
        )
    };
    let sets = set("sources") + &other.map(set).unwrap_or_default();
    format!(
        "nft table {family} bench {{ \
            {sets} \
            chain over {{ type filter {hook}; policy accept; \
                update @sources {{ {key} limit {rate} }} drop; {rules} }}; }}"
    )
}

/// nftables: the rules of a recipe of the cookbook, for IPv4.
///
/// They are at ingress, or before connection tracking and routing if they look for the packet's socket, which costs less
/// than connection tracking. Their order is the one that costs the mix least.
pub fn rules(case: Case) -> String {
    let (packets, bytes, timeout) = match case.verdict {
        Verdict::Dropped => ("1/hour burst 1 packets", "1 bytes/hour burst 1 bytes", "1h"),
        Verdict::Passed => (
            "1000000/second burst 1000000 packets",
            "1000 mbytes/second burst 1000 mbytes",
            "1m",
        ),
    };
    let text = match case.traffic {
        Traffic::Plain => "",
        Traffic::Web => include_str!("rules/web.nft"),
        Traffic::Dns => include_str!("rules/dns.nft"),
        Traffic::Game => include_str!("rules/game.nft"),
    };
    let size = case.sources.capacity();
    let set = format!("size {size}; flags dynamic, timeout; timeout {timeout}");
    let text = text
        .replace("ADDRESSES", &format!("type ipv4_addr; {set}"))
        .replace("PORTS", &format!("type inet_service; {set}"))
        .replace("PACKETS", &format!("limit rate over {packets}"))
        .replace("BYTES", &format!("limit rate over {bytes}"));
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    // On a command line, statements end with semicolons.
    let end = |line: &str| if line.ends_with('{') { " " } else { "; " };
    let rules: String = lines.flat_map(|line| [line, end(line)]).collect();
    format!("nft flush ruleset; {rules}")
}

/// iptables: hashlimit before connection tracking and routing.
pub fn hashlimit(case: Case) -> String {
    let (program, mask) = match case.family {
        Family::Ipv4 => ("iptables", "32"),
        Family::Ipv6 => ("ip6tables", "64"),
    };
    let (rate, burst, expire) = match case.verdict {
        Verdict::Dropped => ("1/hour", "1", "3600000"),
        Verdict::Passed => ("1000000/second", "1000000", "60000"),
    };
    let size = case.sources.capacity();
    format!(
        "{program} -w -t raw -A PREROUTING -m hashlimit --hashlimit-name bench --hashlimit-mode srcip \
         --hashlimit-srcmask {mask} --hashlimit-above {rate} --hashlimit-burst {burst} \
         --hashlimit-htable-size {size} --hashlimit-htable-max {size} \
         --hashlimit-htable-expire {expire} -j DROP"
    )
}
