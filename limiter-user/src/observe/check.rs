//! `check`: the buckets of a source, and the lists that decide about the source.

use std::net::IpAddr;

use limiter_common::{
    abi::rules::ON_BAN,
    policy::{of_lists, second_chance::SOURCE, verdict::Reason},
    table::key::SourceKey,
};
use limiter_config::{
    ALLOW, DENY, Destination, Limit,
    key::address,
    lists::{THROTTLED, show},
};
use limiter_kernel::{
    Attachment, Result,
    program::{OpenTable, Tables},
    sys::clock,
};

use super::{
    Ban, Check, CheckedLimit, MissingOptions, OnList, Query, readers,
    source::{OpenOfSource, Refused},
};

/// Checks a source against the limits and lists of an attachment.
pub fn check(attachment: &Attachment, query: &Query) -> Result<Check> {
    let Attachment { record, tables, .. } = attachment;
    let source = query.source;
    let listed = attachment.lists.of(source)?;
    let throttled = match record.tiers.of(THROTTLED) {
        Some(bit)
            if attachment
                .bans
                .throttles(source, listed.allowed, clock::now()?)? =>
        {
            1 << bit
        }
        _ => 0,
    };
    let listed = listed.lists | throttled;
    let (decides, ban) = decided_by(attachment, source)?;
    let is_in = |places: &[Destination]| {
        let bits = record.tiers.mask(places);
        bits.is_ok_and(|bits| listed & bits != 0)
    };
    let holds = |limit: &Limit| {
        let matches = &limit.matches;
        let on_list = matches.source.is_empty() || is_in(&matches.source);
        matches.holds_version_of(source) && on_list && !is_in(&matches.unless)
    };
    let nat64 = record.settings.translators();
    let new_sources = record.settings.new_sources;
    let second_chance = new_sources.is_some_and(|limit| limit.second_chance);
    let open = &attachment.open;
    let (mut limits, mut missing) = (Vec::new(), Vec::new());
    let mut is_by_source = true;
    for mut reader in readers(attachment)? {
        let Limit { name, key, .. } = reader.limit.clone();
        is_by_source &= key.is_by_source();
        if !holds(&reader.limit) {
            continue;
        }
        let options = query.missing(&key);
        if !options.is_empty() {
            missing.push(MissingOptions {
                limit: name,
                key: key.to_string(),
                options,
            });
            continue;
        }
        for bucket_key in query.keys(&key, reader.slot, tables, &nat64) {
            let bucket = tables.sets.source(&bucket_key);
            // The clock is read after the bucket. Otherwise a packet in between would seem to come from the future.
            reader.now = clock::now()?;
            let refused = match bucket {
                None if second_chance => match refused(tables, &bucket_key)? {
                    None => refused(tables, &SOURCE.key(0, &address(source), 0, &nat64))?,
                    of_key => of_key,
                },
                _ => None,
            };
            let shown = match bucket {
                // The port or VLAN of such a key is not that of a packet.
                None if query.port.is_none() && query.vlan.is_none() => {
                    key.show_source(&bucket_key, &nat64)
                }
                _ => key.show(&bucket_key, &nat64),
            };
            limits.push(CheckedLimit {
                connections: open_of(attachment, &reader.limit, open, query),
                refused,
                ..reader.check(shown, bucket.as_ref())
            });
        }
    }
    if let Some(list) = decides {
        let wait = (list == ALLOW).then_some(0.0);
        (limits.iter_mut()).for_each(|limit| limit.retry_after_seconds = wait);
    }
    let lists_source = |name: &&String| {
        let bit = record.tiers.of(name);
        bit.is_some_and(|bit| listed >> bit & 1 != 0)
    };
    let tiers = record.tiers.tiers().filter(lists_source);
    Ok(Check {
        interface: attachment.interface.name.clone(),
        // With a single limit, the source is shown as its bucket's key.
        source: match &limits[..] {
            [only] if is_by_source => only.bucket.clone(),
            _ => source.to_string(),
        },
        shadow: record.settings.shadow,
        listed: decides,
        ban,
        lists: deciding(attachment, source, listed)?,
        tiers: tiers.cloned().collect(),
        limits,
        missing,
        packet: None,
    })
}

/// The open connections of a source under a limit with a bound: at the port that is asked about, or at the first one of the
/// match.
fn open_of(
    attachment: &Attachment,
    limit: &Limit,
    open: &Option<OpenTable>,
    query: &Query,
) -> Option<OpenOfSource> {
    let limits = &attachment.record.settings.limits;
    let index = limits.iter().position(|other| other.name == limit.name)?;
    let ports = limit.matches.destination_port.first();
    let first = ports.and_then(|ports| u16::try_from(ports.first).ok());
    let port = query.port.or(first).unwrap_or_default();
    Some(OpenOfSource {
        most: limit.connections?,
        open: open.as_ref()?.of(index, query.source, port)?,
    })
}

fn refused(tables: &Tables, key: &SourceKey) -> Result<Option<Refused>> {
    let times = tables.refused(key, clock::now()?)?;
    Ok(times.map(|(ago, left)| Refused {
        seconds_ago: ago as f64 / 1e9,
        seconds_left: left as f64 / 1e9,
    }))
}

/// The prefix by which each list in `lists` decides about the source: the longest match.
fn deciding(attachment: &Attachment, source: IpAddr, lists: u32) -> Result<Vec<OnList>> {
    if lists == 0 {
        return Ok(Vec::new());
    }
    let record = &attachment.record;
    let groups = attachment.lists.prefixes()?;
    let names = record.list_sizes.iter().map(|(name, _)| name);
    let decides = |name: &String| {
        let bit = record.tiers.of(name).filter(|bit| lists >> bit & 1 != 0)?;
        let on_it = groups.iter().filter(|(_, own)| own >> bit & 1 != 0);
        let around = on_it.filter_map(|(prefixes, _)| prefixes.around(source));
        let prefix = around.max_by_key(|prefix| prefix.prefix_len())?;
        let of_fleet = record.overlay.alone.get(name);
        let of_fleet = of_fleet.is_some_and(|alone| alone.contains(&prefix));
        Some(OnList {
            list: name.clone(),
            prefix: show(&prefix),
            by: of_fleet.then_some("fleet"),
            host: None,
            since: None,
        })
    };
    Ok(names.filter_map(decides).collect())
}

/// The name in [`Check::listed`] of a ban.
pub const BAN: &str = "ban";

/// The list that decides about a source before any limit, or its ban.
pub(super) fn decided_by(
    attachment: &Attachment,
    source: IpAddr,
) -> Result<(Option<&'static str>, Option<Ban>)> {
    let listed = attachment.lists.of(source)?;
    let now = clock::now()?;
    let ban = attachment.bans.of(source, listed.allowed, now)?;
    let lists = listed.lists | ban.as_ref().map_or(0, |_| ON_BAN);
    let decides = match of_lists(lists) {
        Some(Reason::Ban) => Some(BAN),
        Some(Reason::Deny) => Some(DENY),
        Some(_) => Some(ALLOW),
        None => None,
    };
    Ok((
        decides,
        ban.map(|found| Ban::new(&found.prefix, &found.ban, found.dropped, now)),
    ))
}
