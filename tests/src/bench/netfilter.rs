//! Sets up the kernel's own limiters as their manuals advise.
//!
//! They have room for all sources, keep buckets until these are refilled, and drop packets as early as possible.

use anyhow::Result;
use limiter_tests::testbed::INTERFACE;

use super::{
    case::{Case, Family, Verdict},
    testbed::{Testbed, on, on_with_input},
};

/// nftables: a dynamic set on the ingress hook of the device.
pub fn nft_ingress(case: Case, testbed: &Testbed) -> Result<()> {
    let hook = format!("hook ingress device \"{INTERFACE}\" priority 0");
    nft(case, testbed, "netdev", &hook)
}

/// nftables: a dynamic set before connection tracking and routing.
pub fn nft_prerouting(case: Case, testbed: &Testbed) -> Result<()> {
    nft(case, testbed, "inet", "hook prerouting priority raw")
}

fn nft(case: Case, testbed: &Testbed, family: &str, hook: &str) -> Result<()> {
    let (kind, key) = match case.family {
        Family::Ipv4 => ("ipv4_addr", "ip saddr"),
        Family::Ipv6 => ("ipv6_addr", "ip6 saddr and ffff:ffff:ffff:ffff::"),
    };
    let (rate, timeout) = match case.verdict {
        Verdict::Dropped => ("rate over 1/hour burst 1 packets", "1h"),
        Verdict::Passed => ("rate over 1000000/second burst 1000000 packets", "1m"),
    };
    let size = case.sources.capacity();
    let rules = format!(
        "table {family} bench {{
            set sources {{ type {kind}; size {size}; flags dynamic, timeout; timeout {timeout}; }}
            chain over {{
                type filter {hook}; policy accept;
                update @sources {{ {key} limit {rate} }} drop
            }}
        }}"
    );
    on_with_input(&testbed.server, &["nft", "-f", "-"], &rules)
}

/// iptables: hashlimit before connection tracking and routing.
pub fn hashlimit(case: Case, testbed: &Testbed) -> Result<()> {
    let (program, mask) = match case.family {
        Family::Ipv4 => ("iptables", "32"),
        Family::Ipv6 => ("ip6tables", "64"),
    };
    let (rate, burst, expire) = match case.verdict {
        Verdict::Dropped => ("1/hour", "1", "3600000"),
        Verdict::Passed => ("1000000/second", "1000000", "60000"),
    };
    let size = case.sources.capacity().to_string();
    let rule = format!(
        "-t raw -A PREROUTING -m hashlimit --hashlimit-name bench --hashlimit-mode srcip \
         --hashlimit-srcmask {mask} --hashlimit-above {rate} --hashlimit-burst {burst} \
         --hashlimit-htable-size {size} --hashlimit-htable-max {size} \
         --hashlimit-htable-expire {expire} -j DROP"
    );
    let mut words = vec![program, "-w"];
    words.extend(rule.split_whitespace());
    on(&testbed.server, &words)
}

/// tc: a policer on ingress, with one bucket for all because it knows no sources.
pub fn tc_police(case: Case, testbed: &Testbed) -> Result<()> {
    let (rate, burst) = match case.verdict {
        Verdict::Dropped => ("1", "1"),
        Verdict::Passed => ("100000000", "100000000"),
    };
    on(
        &testbed.server,
        &["tc", "qdisc", "add", "dev", INTERFACE, "clsact"],
    )?;
    let filter = format!(
        "filter add dev {INTERFACE} ingress matchall action police pkts_rate {rate} \
         pkts_burst {burst} conform-exceed drop/pipe"
    );
    let mut words = vec!["tc"];
    words.extend(filter.split_whitespace());
    on(&testbed.server, &words)
}
