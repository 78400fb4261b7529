//! Notes of `limiter ban`: entries of the allow list, and bans that are there.

use ipnet::IpNet;
use limiter_common::abi;
use limiter_config::{Prefixes, lists::show};
use limiter_kernel::{Attachment, Result, program::bans::BY_HAND};

use super::{ban::Wish, edit::first_of};
use crate::{cli::shared::note, observe, show::bans::since};

/// Says which of the two takes precedence where a ban and an allowed prefix overlap.
pub fn allowed(interface: &str, wish: &Wish, allow: &Prefixes) {
    let bans = || wish.prefixes.iter();
    let is_in_ban = |allowed: &IpNet| bans().any(|ban| ban.contains(allowed));
    let is_around =
        |allowed: &IpNet| !is_in_ban(allowed) && bans().any(|ban| allowed.contains(ban));
    if let Some(passing) = first_of(allow.iter().filter(is_in_ban)) {
        note(&format!(
            "{passing} still passes {interface}: on allow, the same or a longer prefix takes precedence over a ban"
        ));
    }
    let Some(around) = first_of(allow.iter().filter(is_around)) else {
        return;
    };
    note(&if wish.origin == BY_HAND {
        format!(
            "{around} on allow does not pass this ban of {interface}, because it is made by hand"
        )
    } else {
        format!(
            "{around} still passes {interface}: allow takes precedence over the bans of programs"
        )
    });
}

/// The end of a ban as a number that is larger for a later end.
pub fn end(until: u64) -> u64 {
    if until == 0 { u64::MAX } else { until }
}

/// The note about a prefix that another origin bans for longer.
pub fn by_others(
    attachment: &Attachment,
    wish: &Wish,
    ban: &abi::Ban,
    now: u64,
) -> Result<Option<String>> {
    let mut found = Vec::new();
    for prefix in &wish.prefixes {
        let others = attachment.bans.get(prefix, now)?.into_iter();
        let others = others.filter(|other| other.is_throttle == 0 && other.origin != ban.origin);
        let longest = others.max_by_key(|other| end(other.ends.until));
        let longer = longest.filter(|other| end(other.ends.until) > end(ban.ends.until));
        found.extend(longer.map(|other| observe::Ban::new(prefix, &other, 0, now)));
    }
    Ok(first_with_more(&found).map(|(first, more)| {
        let (prefix, since) = (&first.prefix, since(first));
        format!("{prefix}{more} stays banned {since}: the latest end holds")
    }))
}

/// The note about a prefix within a shorter one that is banned.
pub fn around(attachment: &Attachment, wish: &Wish, now: u64) -> Result<Option<String>> {
    let mut found = Vec::new();
    for prefix in &wish.prefixes {
        let around = attachment.bans.around(prefix, now)?;
        found.extend(around.map(|around| {
            let ban = observe::Ban::new(&around.prefix, &around.ban, around.dropped, now);
            (show(prefix), ban)
        }));
    }
    Ok(first_with_more(&found).map(|((prefix, ban), more)| {
        let (around, since) = (&ban.prefix, since(ban));
        format!("{prefix}{more} is within {around}, which is banned {since}")
    }))
}

/// The note about an address that looks like a network: of IPv6, with zeros in its second half.
pub fn alone(interface: &str, wish: &Wish) -> Option<String> {
    let is_alone = |prefix: &&IpNet| match prefix {
        IpNet::V6(prefix) => {
            let address = prefix.addr().to_bits();
            prefix.prefix_len() == 128 && address != 0 && address & u128::from(u64::MAX) == 0
        }
        IpNet::V4(_) => false,
    };
    let prefix = wish.prefixes.iter().find(is_alone)?;
    let address = prefix.addr();
    Some(format!(
        "{address} is one address: `limiter ban {interface} {address}/64` bans its network"
    ))
}

fn first_with_more<T>(found: &[T]) -> Option<(&T, String)> {
    let first = found.first()?;
    let more = match found.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some((first, more))
}
