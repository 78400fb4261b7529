//! From an attachment's maps to plain types.

use std::{collections::HashMap, net::IpAddr};

use limiter_common::{
    counters::Counters,
    entry::Entry,
    key::SourceKey,
    layout::Source,
    rules::{ON_ALLOW, ON_DENY},
    verdict::Reason,
};

use super::{
    Interface, Limit, List, NextProgram, Passes, Sources, drops,
    source::{Check, CheckedLimit, Reader, Top, TopSource},
    verdicts,
};
use crate::config::{
    self, Key,
    compile::FIRST_SLOT,
    lists::{ALLOW, DENY},
};
use crate::kernel::{
    Attachment, clock,
    error::Result,
    maps::Tables,
    record::{Record, Seat},
};

/// Everything that `status` shows of an attachment.
pub fn interface(attachment: &Attachment) -> Result<Interface> {
    let Attachment {
        interface,
        record,
        tables,
        ..
    } = attachment;
    let settings = &record.settings;
    let (mut tracked, mut entries) = (0, 0);
    for (key, _) in tables.sources() {
        tracked += 1;
        entries += 1 + u64::from(key.tag().is_wide());
    }
    let counters = tables.counters()?;
    let limits = record.seated();
    let limits = limits
        .iter()
        .map(|(of, seat)| limit(of, seat, record, tables));
    Ok(Interface {
        name: interface.name.clone(),
        ifindex: interface.index,
        mode: attachment.mode.name(),
        loopback: interface.loopback,
        fallback: record.fallback.clone(),
        program_id: attachment.program_id,
        attached_at: record.attached_at.clone(),
        try_until: attachment.try_until(),
        shadow: settings.shadow,
        malformed: settings.malformed.name(),
        logging: record.logging,
        frags: record.frags,
        chained: record.chained,
        next_program: attachment.next()?.map(|next| NextProgram {
            program_id: next.id,
            name: next.name,
            mode: next.mode.name(),
        }),
        file: record.file.as_ref().map(|path| path.display().to_string()),
        new_sources: settings.new_sources.map(|limit| limit.rate.to_string()),
        exempt: settings.exempt.names(),
        limits: limits.collect::<Result<_>>()?,
        lists: lists(record, tables)?,
        packets: verdicts(&counters, |count| count.packets),
        bytes: verdicts(&counters, |count| count.bytes),
        drops: drops(&counters),
        passes: passes(&counters),
        sources: Sources {
            tracked,
            entries,
            capacity: tables.capacity(),
            memory_bytes: attachment.memory(),
            source_bytes: size_of::<Entry>() as u64,
            added: counters.sources_added,
            removed: counters.sources_removed,
        },
        events_lost: tables.events_lost()?,
    })
}

fn passes(counters: &Counters) -> Passes {
    let of = |reason: Reason| counters.by_reason[reason as usize].packets;
    Passes {
        not_ip: of(Reason::NotIp),
        allowed: of(Reason::Allowed),
        unlimited: of(Reason::Unlimited),
        established: of(Reason::Established),
    }
}

/// The figures of the limit in the first slot are those of the short way too, on which it was alone.
fn limit(of: &config::Limit, seat: &Seat, record: &Record, tables: &Tables) -> Result<Limit> {
    let own = tables.limit(seat.slot)?;
    let plain = if seat.slot == FIRST_SLOT {
        tables.plain()?
    } else {
        Counters::default()
    };
    let plain = |reason: Reason| plain.by_reason[reason as usize];
    let dropped = plain(Reason::Limit) + plain(Reason::Newcomer) + plain(Reason::Contended);
    Ok(Limit {
        name: of.name.clone(),
        rate: of.rate.to_string(),
        burst: of.burst(record.frame_max)?.to_string(),
        key: of.key.to_string(),
        r#match: (!of.matches.is_everything()).then(|| config::file::matches(&of.matches)),
        cost: of.cost,
        algorithm: of.algorithm.name(),
        shadow: of.shadow,
        passed: (own.passed + plain(Reason::Admitted) + plain(Reason::WouldDrop)).into(),
        dropped: (own.dropped + dropped).into(),
        would_drop: (own.would_drop + plain(Reason::WouldDrop)).into(),
    })
}

fn lists(record: &Record, tables: &Tables) -> Result<Vec<List>> {
    let lists = record.list_sizes.iter();
    lists
        .map(|(name, prefixes)| {
            let hits = record.tiers.of(name).map(|bit| tables.hits(bit));
            Ok(List {
                name: name.clone(),
                prefixes: *prefixes,
                hits: hits.transpose()?.unwrap_or_default().into(),
            })
        })
        .collect()
}

/// What reads the buckets of each limit, as of now.
fn readers(record: &Record) -> Result<Vec<(config::Limit, Seat, Reader)>> {
    let now = clock::now()?;
    let seated = record.seated().into_iter();
    seated
        .map(|(limit, seat)| {
            let reader = Reader {
                name: limit.name.clone(),
                shadow: record.settings.shadow || limit.shadow,
                terms: limit.terms(record.frame_max)?.at_phase(seat.phase),
                epoch: seat.epoch,
                past: seat.changes(),
                now,
            };
            Ok((limit, seat, reader))
        })
        .collect()
}

/// What each limit says of a source.
pub fn check(attachment: &Attachment, source: IpAddr) -> Result<Check> {
    let Attachment { record, tables, .. } = attachment;
    let listed = attachment.lists.of(source)?.lists;
    let on = |name: &String| {
        let bit = record.tiers.of(name);
        bit.is_some_and(|bit| listed >> bit & 1 != 0)
    };
    let holds = |limit: &config::Limit| {
        let matches = &limit.matches;
        let on_list = matches.source.is_empty() || matches.source.iter().any(on);
        matches.holds_version_of(source) && on_list && !matches.unless.iter().any(on)
    };
    // The clock is read after the buckets: otherwise a packet in between would seem to come from the
    // future.
    let mut buckets = Vec::new();
    for (limit, seat) in record.seated() {
        if holds(&limit) {
            buckets.push(buckets_of(&limit.key, seat.slot, source, tables)?);
        } else {
            buckets.push(Vec::new());
        }
    }
    let readers = readers(record)?;
    let checked = readers
        .iter()
        .zip(&buckets)
        .flat_map(|((.., reader), buckets)| {
            let lines = buckets.iter();
            lines.map(|(name, entry)| reader.check(name.clone(), entry.as_ref()))
        });
    let limits: Vec<CheckedLimit> = checked.collect();
    Ok(Check {
        interface: attachment.interface.name.clone(),
        // As its bucket's key, where there is but one.
        source: match &limits[..] {
            [only] => only.bucket.clone(),
            _ => source.to_string(),
        },
        shadow: record.settings.shadow,
        listed: match listed {
            listed if listed & ON_DENY != 0 => Some(DENY),
            listed if listed & ON_ALLOW != 0 => Some(ALLOW),
            _ => None,
        },
        tiers: record
            .tiers
            .0
            .keys()
            .filter(|name| on(name))
            .cloned()
            .collect(),
        limits,
    })
}

/// The buckets of a source under one limit: one, or one for each port that it has sent to.
fn buckets_of(
    key: &Key,
    slot: u32,
    source: IpAddr,
    tables: &Tables,
) -> Result<Vec<(String, Option<Source>)>> {
    let first = key.of(slot, source, 0);
    if !key.by_port {
        return Ok(vec![(key.show(&first), tables.source(&first))]);
    }
    let of_any_port = |entry: &SourceKey| {
        entry.slot() == slot && entry.family() == first.family() && entry.address == first.address
    };
    let mut of_ports: Vec<_> = tables
        .sources()
        .filter(|(entry, _)| of_any_port(entry))
        .collect();
    of_ports.sort_by_key(|(entry, _)| entry.port());
    let mut found: Vec<_> = of_ports
        .into_iter()
        .map(|(entry, value)| (key.show(&entry), Some(value)))
        .collect();
    if found.is_empty() {
        found.push((key.show_source(&first), None));
    }
    Ok(found)
}

/// The sources that dropped most, then those that passed most; at most `most` of them. A source has a
/// line for each bucket.
pub fn top(attachment: &Attachment, most: usize) -> Result<Top> {
    let mut entries: Vec<_> = attachment.tables.sources().collect();
    let readers = readers(&attachment.record)?;
    let by_slot: HashMap<_, _> = readers
        .iter()
        .map(|(limit, seat, reader)| (seat.slot, (limit, reader)))
        .collect();
    // What would be dropped but for shadow comes after what is dropped.
    let dropped = |key: &SourceKey, source: &Source| match by_slot.get(&key.slot()) {
        Some((_, reader)) if !reader.shadow => source.refused,
        _ => 0,
    };
    entries.sort_by_key(|(key, source)| {
        std::cmp::Reverse((dropped(key, source), source.refused, source.passed))
    });
    let line = |(key, entry): &(SourceKey, Source)| -> Option<TopSource> {
        let (limit, reader) = by_slot.get(&key.slot())?;
        Some(reader.top(limit.key.show(key), entry))
    };
    Ok(Top {
        interface: attachment.interface.name.clone(),
        sources: entries.iter().filter_map(line).take(most).collect(),
    })
}
