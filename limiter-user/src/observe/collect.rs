//! From an attachment's maps to plain types.

use std::{net::IpAddr, time::Instant};

use ipnet::IpNet;
use limiter_common::{
    abi::{
        Source,
        counters::{Count as KernelCount, Counters},
        rules::{ON_ALLOW, ON_DENY},
    },
    policy::verdict::{Reason, Verdict},
    table::{
        entry::Entry,
        key::{SLOTS, SourceKey},
    },
};

use super::{
    Drops, Interface, Limit, List, NextProgram, Passes, Sources,
    busiest::{Busiest, Filter, Order, Place},
    denied,
    live::{Gauge, Row, Sample, Since, Wanted, rest},
    reader::{Reader, readers},
    source::{Check, CheckedLimit, OnList},
    verdicts,
};
use crate::{
    config::{
        self, Key,
        compile::FIRST_SLOT,
        lists::{ALLOW, DENY, show},
        origin::By,
        slot::Slot,
    },
    kernel::{
        Attachment,
        error::Result,
        program::{lists::drops as drops_of_prefixes, maps::Tables},
        state::record::{Record, Seat},
    },
};

/// Everything that `status` shows of an attachment.
pub fn interface(attachment: &Attachment) -> Result<Interface> {
    let mut sources = Sources::default();
    attachment
        .tables
        .look_through(|_, key, _| count(&mut sources, key));
    described(attachment, sources)
}

fn count(sources: &mut Sources, key: &SourceKey) {
    sources.tracked += 1;
    sources.entries += 1 + u64::from(key.tag().is_wide());
}

/// The attachment as of now, with the sources of which most was dropped.
pub fn once(attachment: &Attachment, most: usize) -> Result<Sample> {
    let wanted = Wanted {
        order: Order::Dropped,
        filter: Filter::All,
        most,
    };
    sample(attachment, &wanted, &mut Gauge::once())
}

fn described(attachment: &Attachment, sources: Sources) -> Result<Interface> {
    let Attachment {
        interface,
        record,
        tables,
        ..
    } = attachment;
    let settings = &record.settings;
    let counters = tables.counters()?;
    let limits = record.with_slots();
    let limits = limits
        .iter()
        .map(|(of, slot)| limit(of, slot, record, tables));
    Ok(Interface {
        name: interface.name.clone(),
        ifindex: interface.index,
        mode: attachment.mode.name().to_owned(),
        loopback: interface.loopback,
        fallback: record.fallback.clone(),
        program_id: attachment.program_id,
        version: record.version.clone(),
        attached_at: record.attached_at.clone(),
        try_until: attachment.try_until(),
        trial_ended: attachment.trial_ended(),
        shadow: settings.shadow,
        malformed: settings.malformed.name().to_owned(),
        logging: record.logging,
        frags: record.frags,
        chained: record.chained,
        next_program: attachment.next()?.map(|next| NextProgram {
            program_id: next.id,
            name: next.name,
            mode: next.mode.name().to_owned(),
        }),
        file: record.file.as_ref().map(|path| path.display().to_string()),
        new_sources: settings.new_sources.map(|limit| limit.rate.to_string()),
        exempt: settings
            .exempt
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        // The agent knows.
        fleet: None,
        limits: limits.collect::<Result<_>>()?,
        lists: lists(record, tables)?,
        verdicts: verdicts(&counters),
        drops: Drops::new(&counters),
        passes: Passes::new(&counters),
        sources: Sources {
            capacity: tables.capacity(),
            memory_bytes: attachment.memory(),
            source_bytes: size_of::<Entry>() as u64,
            added: counters.sources_added,
            removed: counters.sources_removed,
            ..sources
        },
        events_lost: tables.events_lost()?,
    })
}

/// The limit in the first slot has also the counters of the fast path, on which it was alone.
fn limit(of: &config::Limit, seat: &Seat, record: &Record, tables: &Tables) -> Result<Limit> {
    let own = tables.limit(seat.slot)?;
    let plain = if seat.slot == FIRST_SLOT {
        tables.plain()?
    } else {
        Counters::default()
    };
    let plain = |reason: Reason| plain.by_reason[reason as usize];
    let refused = Reason::ALL
        .into_iter()
        .filter(|reason| reason.verdict() == Verdict::Refuse);
    let dropped: KernelCount = refused.map(plain).sum();
    let would_drop = own.would_drop + plain(Reason::WouldDrop);
    Ok(Limit {
        name: of.name.clone(),
        rate: of.rate.to_string(),
        burst: of.burst(record.frame_max)?.to_string(),
        key: of.key.to_string(),
        r#match: (!of.matches.is_everything()).then(|| config::file::matches(&of.matches)),
        cost: of.cost,
        algorithm: of.algorithm.name().to_owned(),
        shadow: of.shadow,
        passed: (own.admitted + plain(Reason::Admitted) + would_drop).into(),
        dropped: (own.dropped + dropped).into(),
        would_drop: would_drop.into(),
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
        buckets.push(if holds(&limit) {
            buckets_of(&limit.key, seat.slot, source, tables)
        } else {
            Vec::new()
        });
    }
    let readers = readers(record)?;
    let checked = readers.iter().zip(buckets).flat_map(|(reader, buckets)| {
        let lines = buckets.into_iter();
        lines.map(|(name, entry)| reader.check(name, entry.as_ref()))
    });
    let mut limits: Vec<CheckedLimit> = checked.collect();
    let decides = decided_by(listed);
    match decides {
        Some(DENY) => (limits.iter_mut()).for_each(|limit| limit.retry_after_seconds = None),
        Some(_) => (limits.iter_mut()).for_each(|limit| limit.retry_after_seconds = Some(0.0)),
        None => {}
    }
    Ok(Check {
        interface: attachment.interface.name.clone(),
        // As its bucket's key, where there is but one.
        source: match &limits[..] {
            [only] => only.bucket.clone(),
            _ => source.to_string(),
        },
        shadow: record.settings.shadow,
        listed: decides,
        lists: deciding(attachment, source, listed)?,
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

/// The prefix by which each list in `lists` decides about a source: of several the longest, as in the list maps.
fn deciding(attachment: &Attachment, source: IpAddr, lists: u32) -> Result<Vec<OnList>> {
    if lists == 0 {
        return Ok(Vec::new());
    }
    let record = &attachment.record;
    let entries = attachment.lists.entries()?;
    let drops = drops_of_prefixes(&entries);
    let around = entries
        .iter()
        .filter(|(prefix, _)| prefix.contains(&source));
    let around: Vec<_> = around.collect();
    let names = record.list_sizes.iter().map(|(name, _)| name);
    let decides = |name: &String| {
        let bit = record.tiers.of(name).filter(|bit| lists >> bit & 1 != 0)?;
        let on_it = around
            .iter()
            .filter(|(_, listed)| listed.own >> bit & 1 != 0);
        let (prefix, _) = on_it.max_by_key(|(prefix, _)| prefix.prefix_len())?;
        let dropped = || drops.get(prefix).copied().unwrap_or(0);
        Some(OnList {
            dropped_packets: (name == DENY).then(dropped),
            ..on_list(record, name, prefix)
        })
    };
    Ok(names.filter_map(decides).collect())
}

fn on_list(record: &Record, list: &str, prefix: &IpNet) -> OnList {
    let of_fleet = (record.overlay.alone.get(list)).is_some_and(|alone| alone.contains(prefix));
    let origin = record.origins.of(list, prefix).filter(|_| !of_fleet);
    let by = match &origin {
        _ if of_fleet => Some(By::Fleet),
        origin => origin.as_ref().map(|origin| origin.by),
    };
    let file = record.file.as_ref().filter(|_| by == Some(By::File));
    OnList {
        list: list.to_owned(),
        prefix: show(prefix),
        by: by.map(By::name),
        file: file.map(|path| path.display().to_string()),
        host: None,
        since: origin.map(|origin| origin.since),
        dropped_packets: None,
    }
}

/// The buckets of a source under one limit: one, or one for each port that it has sent to.
fn buckets_of(
    key: &Key,
    slot: u32,
    source: IpAddr,
    tables: &Tables,
) -> Vec<(String, Option<Source>)> {
    let first = key.of(slot, source, 0);
    if !key.by_port {
        return vec![(key.show(&first), tables.source(&first))];
    }
    let of_any_port = |entry: &SourceKey| {
        entry.slot() == slot && entry.family() == first.family() && entry.address == first.address
    };
    let mut of_ports: Vec<_> = tables
        .sets
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
    found
}

/// One scan of the table; `gauge` remembers the scan before, if there was one.
pub fn sample(attachment: &Attachment, wanted: &Wanted, gauge: &mut Gauge) -> Result<Sample> {
    let interface = &attachment.interface;
    let of = (interface.index, attachment.record.attached_at.clone());
    let elapsed = gauge.begin(of, attachment.tables.capacity(), Instant::now());
    let scanned = scan(attachment, wanted, gauge)?;
    let mut rows = rows(attachment, scanned.busiest)?;
    let mut denied = gauge.denied.read(attachment, wanted)?;
    // Counted after the sources: none of theirs is missing.
    let interface = described(attachment, scanned.sources)?;
    let before = gauge.drops(interface.drops);
    let deny = interface.drops.of(Reason::Deny);
    let since = deny.packets.saturating_sub(before.of(Reason::Deny).packets);
    denied::bound(&mut denied, deny, since);
    rows.extend(denied);
    rows.extend(rest(&interface.drops, &before, &rows));
    Ok(Sample {
        interface,
        matching: scanned.matching,
        elapsed,
        rows,
    })
}

/// What one scan of the table finds.
struct Scanned {
    sources: Sources,
    matching: u64,
    busiest: Vec<(SourceKey, Source, Since)>,
}

/// Reads each source once, and shows it to `gauge`.
fn scan(attachment: &Attachment, wanted: &Wanted, gauge: &mut Gauge) -> Result<Scanned> {
    let Attachment { record, tables, .. } = attachment;
    let readers = readers(record)?;
    let by_slot = by_slot(&readers);
    let names = by_slot.map(|reader| reader.map(|reader| reader.limit.name.to_lowercase()));
    let (mut sources, mut matching, mut text) = (Sources::default(), 0, String::new());
    let mut busiest = Busiest::new(wanted.most);
    tables.look_through(|number, key, source| {
        count(&mut sources, key);
        let since = gauge.since(number, key, source);
        let slot = key.slot() as usize;
        // A limit that has just gone has buckets until they are cleared.
        let (Some(Some(reader)), Some(Some(name))) = (by_slot.get(slot), names.get(slot)) else {
            return;
        };
        let of = &reader.limit.key;
        if wanted
            .filter
            .wants(|| written(of, key, &mut text), name, || of.network(key))
        {
            matching += 1;
            let activity = reader.activity(source, since, wanted.order);
            let rank = activity.rank(wanted.order, key.into());
            busiest.offer(rank, (*key, *source, since));
        }
    });
    Ok(Scanned {
        sources,
        matching,
        busiest: busiest.in_order(),
    })
}

/// How a source is shown, in `room`.
fn written<'r>(of: &Key, key: &SourceKey, room: &'r mut String) -> &'r str {
    room.clear();
    // Writing to a string does not fail.
    let _ = of.write(key, room);
    room
}

fn by_slot(readers: &[Reader]) -> [Option<&Reader>; SLOTS as usize] {
    let mut by_slot = [None; SLOTS as usize];
    for reader in readers {
        if let Some(of) = by_slot.get_mut(reader.slot as usize) {
            *of = Some(reader);
        }
    }
    by_slot
}

/// The rows of sources. The clock is read again, after their buckets.
fn rows(attachment: &Attachment, sources: Vec<(SourceKey, Source, Since)>) -> Result<Vec<Row>> {
    let readers = readers(&attachment.record)?;
    let by_slot = by_slot(&readers);
    let row = |(key, source, since): (SourceKey, Source, Since)| {
        let reader = by_slot.get(key.slot() as usize).copied().flatten()?;
        let limit = &reader.limit;
        let network = limit.key.network(&key);
        let listed = network.map(|network| attachment.lists.of(network.addr()));
        Some(listed.transpose().map(|listed| Row {
            source: limit.key.show(&key),
            limit: limit.name.clone(),
            network,
            listed: listed.and_then(|listed| decided_by(listed.lists)),
            reason: None,
            activity: reader.activity(&source, since, Order::Tokens),
            place: Place::from(&key),
        }))
    };
    sources.into_iter().filter_map(row).collect()
}

/// The list that decides about a source before any limit.
fn decided_by(lists: u32) -> Option<&'static str> {
    match lists {
        lists if lists & ON_DENY != 0 => Some(DENY),
        lists if lists & ON_ALLOW != 0 => Some(ALLOW),
        _ => None,
    }
}
