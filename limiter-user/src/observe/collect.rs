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
    denied::{self, Denied},
    live::{Busy, Gauge, Sample, Since, Wanted, rest},
    source::{Check, CheckedLimit, OnList, Reader, Top},
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
        state::record::Record,
        sys::clock,
    },
};

/// Everything that `status` shows of an attachment.
pub fn interface(attachment: &Attachment) -> Result<Interface> {
    let mut taken = Taken::default();
    attachment.tables.sets.scan(|_, key, _| taken.count(key));
    described(attachment, taken)
}

/// What sources take of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    sources: u64,
    entries: u64,
}

impl Taken {
    fn count(&mut self, key: &SourceKey) {
        self.sources += 1;
        self.entries += 1 + u64::from(key.tag().is_wide());
    }
}

/// What `status` shows, and `top`, from one pass over the table.
pub fn interface_and_top(attachment: &Attachment, most: usize) -> Result<(Interface, Top)> {
    let wanted = Wanted {
        order: Order::Dropped,
        filter: Filter::All,
        most,
    };
    let found = look_through(attachment, &wanted, |_, _, _| Since::default())?;
    let mut rows = rows(attachment, found.busiest)?;
    let mut denied = Denied::default().look(attachment, &wanted)?;
    let interface = described(attachment, found.taken)?;
    denied::bound(&mut denied, interface.drops.of(Reason::Deny), 0);
    rows.extend(denied);
    rows.extend(rest(&interface.drops, &interface.drops, &rows));
    let top = Top::new(&interface, rows, None);
    Ok((interface, top))
}

fn described(attachment: &Attachment, taken: Taken) -> Result<Interface> {
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
        mode: attachment.mode.name(),
        loopback: interface.loopback,
        fallback: record.fallback.clone(),
        program_id: attachment.program_id,
        version: record.version.clone(),
        attached_at: record.attached_at.clone(),
        try_until: attachment.try_until(),
        trial_ended: attachment.trial_ended(),
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
        // The agent knows.
        fleet: None,
        limits: limits.collect::<Result<_>>()?,
        lists: lists(record, tables)?,
        verdicts: verdicts(&counters),
        drops: Drops::new(&counters),
        passes: Passes::new(&counters),
        sources: Sources {
            tracked: taken.sources,
            entries: taken.entries,
            capacity: tables.sets.capacity(),
            memory_bytes: attachment.memory(),
            source_bytes: size_of::<Entry>() as u64,
            added: counters.sources_added,
            removed: counters.sources_removed,
        },
        events_lost: tables.events_lost()?,
    })
}

/// The figures of the limit in the first slot are those of the short way too, on which it was alone.
fn limit(of: &config::Limit, slot: &Slot, record: &Record, tables: &Tables) -> Result<Limit> {
    let own = tables.limit(slot.number)?;
    let plain = if slot.number == FIRST_SLOT {
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
        algorithm: of.algorithm.name(),
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

/// What reads the buckets of each limit, as of now.
pub fn readers(record: &Record) -> Result<Vec<(config::Limit, Slot, Reader)>> {
    let now = clock::now()?;
    let limits = record.with_slots().into_iter();
    limits
        .map(|(limit, slot)| {
            let reader = Reader {
                name: limit.name.clone(),
                shadow: record.settings.shadow || limit.shadow,
                terms: limit.terms(record.frame_max)?.at_phase(slot.phase),
                epoch: slot.epoch,
                past: slot.past.clone(),
                now,
            };
            Ok((limit, slot, reader))
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
    for (limit, slot) in record.with_slots() {
        if holds(&limit) {
            buckets.push(buckets_of(&limit.key, slot.number, source, tables)?);
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
) -> Result<Vec<(String, Option<Source>)>> {
    let first = key.of(slot, source, 0);
    if !key.by_port {
        return Ok(vec![(key.show(&first), tables.sets.source(&first))]);
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
    Ok(found)
}

/// What the live view shows; `gauge` has seen the table before, or not.
pub fn sample(attachment: &Attachment, wanted: &Wanted, gauge: &mut Gauge) -> Result<Sample> {
    let interface = &attachment.interface;
    let of = (interface.index, attachment.record.attached_at.clone());
    let elapsed = gauge.begin(of, attachment.tables.sets.capacity(), Instant::now());
    let all = look_through(attachment, wanted, |number, key, source| {
        gauge.since(number, key, source)
    })?;
    let mut sources = rows(attachment, all.busiest)?;
    let mut denied = gauge.denied.look(attachment, wanted)?;
    // Counted after the sources: none of theirs is missing.
    let interface = described(attachment, all.taken)?;
    let before = gauge.drops(interface.drops);
    let deny = interface.drops.of(Reason::Deny);
    let since = deny.packets.saturating_sub(before.of(Reason::Deny).packets);
    denied::bound(&mut denied, deny, since);
    sources.extend(denied);
    sources.extend(rest(&interface.drops, &before, &sources));
    Ok(Sample {
        interface,
        matching: all.matching,
        elapsed,
        sources,
    })
}

/// What one pass over the table finds.
struct Found {
    taken: Taken,
    matching: u64,
    busiest: Vec<(SourceKey, Source, Since)>,
}

/// Looks at each source once. `since` tells what has come since the last look; each source is shown to it.
fn look_through(
    attachment: &Attachment,
    wanted: &Wanted,
    mut since: impl FnMut(usize, &SourceKey, &Source) -> Since,
) -> Result<Found> {
    let Attachment { record, tables, .. } = attachment;
    let readers = readers(record)?;
    let by_slot = by_slot(&readers);
    let by_name =
        by_slot.map(|of| of.is_some_and(|(limit, _)| wanted.filter.wants_limit(&limit.name)));
    let (mut taken, mut matching, mut text) = (Taken::default(), 0, String::new());
    let mut busiest = Busiest::new(wanted.most);
    tables.sets.scan(|number, key, source| {
        taken.count(key);
        let since = since(number, key, source);
        let slot = key.slot() as usize;
        // A limit that has just gone has buckets until they are cleared.
        let Some((limit, reader)) = by_slot.get(slot).copied().flatten() else {
            return;
        };
        let filter = &wanted.filter;
        if filter.wants_key(&limit.key, key, by_name[slot], &mut text) {
            matching += 1;
            let rank = reader
                .figures(source, since, wanted.order)
                .rank(wanted.order, key.into());
            busiest.offer(rank, (*key, *source, since));
        }
    });
    Ok(Found {
        taken,
        matching,
        busiest: busiest.in_order(),
    })
}

type BySlot<'r> = [Option<(&'r config::Limit, &'r Reader)>; SLOTS as usize];

fn by_slot(readers: &[(config::Limit, Slot, Reader)]) -> BySlot<'_> {
    let mut by_slot = [None; SLOTS as usize];
    for (limit, slot, reader) in readers {
        if let Some(of) = by_slot.get_mut(slot.number as usize) {
            *of = Some((limit, reader));
        }
    }
    by_slot
}

/// The lines of sources. The clock is read again, after their buckets.
fn rows(attachment: &Attachment, found: Vec<(SourceKey, Source, Since)>) -> Result<Vec<Busy>> {
    let readers = readers(&attachment.record)?;
    let by_slot = by_slot(&readers);
    let row = |(key, source, since): (SourceKey, Source, Since)| {
        let (limit, reader) = by_slot.get(key.slot() as usize).copied().flatten()?;
        let network = limit.key.network(&key);
        let listed = network.map(|network| attachment.lists.of(network.addr()));
        let figures = reader.figures(&source, since, Order::Tokens);
        Some(listed.transpose().map(|listed| Busy {
            source: reader.top(limit.key.show(&key), &source),
            network,
            listed: listed.and_then(|listed| decided_by(listed.lists)),
            reason: None,
            figures,
            place: Place::from(&key),
        }))
    };
    found.into_iter().filter_map(row).collect()
}

/// The list that decides about a source before any limit.
fn decided_by(lists: u32) -> Option<&'static str> {
    match lists {
        lists if lists & ON_DENY != 0 => Some(DENY),
        lists if lists & ON_ALLOW != 0 => Some(ALLOW),
        _ => None,
    }
}
