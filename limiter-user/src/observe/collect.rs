//! Converts an attachment's maps to plain types.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use limiter_common::{
    abi::Source,
    arithmetic::scale,
    table::{
        entry::Entry,
        key::{SLOTS, SourceKey},
    },
};
use limiter_config::{DENY, Slot, compile::FIRST_SLOT, key::octets};
use limiter_kernel::{
    Attachment, Result, probe,
    program::{OpenTable, Tables},
    state::{OnTrial, Record},
    sys::clock,
};

use super::{
    BanCounts, Connections, Delays, Drops, Interface, Limit, List, NextProgram, Passes, Reader,
    Sample, Sources, Top,
    busiest::{Order, Ranked, offer, rank},
    check::{BAN, decided_by},
    of_the_only_limit,
    reader::{part, stretch},
    readers,
    sample::{Found, Gauge, Since, rest},
    source::TopSource,
    verdicts,
};
use crate::ask;

/// Everything that `status` shows of an attachment. Waits at most `patience` for the fleet's agent.
pub async fn interface(attachment: &Attachment, patience: Duration) -> Result<Interface> {
    if let Some(open) = &attachment.open {
        open.correct()?;
    }
    Ok(Interface {
        fleet: ask::of(attachment, patience).await,
        merges: probe::gro(&attachment.interface.name) != Some(false),
        ..once(attachment, 0)?.interface
    })
}

/// Sources in the table, and the number of those that each limit holds, by slot.
type Counted = (Sources, BTreeMap<u32, u64>);

/// Takes a single sample of the attachment, with the most dropped sources.
pub fn once(attachment: &Attachment, most: usize) -> Result<Sample> {
    sample(attachment, &mut Gauge::new(most, true))
}

fn described(attachment: &Attachment, (sources, held): Counted) -> Result<Interface> {
    let (interface, record) = (&attachment.interface, &attachment.record);
    let (settings, tables) = (&record.settings, &attachment.tables);
    let counters = tables.counters()?;
    let limits = record.with_slots();
    let open = attachment.open.as_ref();
    let limits = limits
        .iter()
        .enumerate()
        .map(|(index, (configured, slot))| {
            limit(configured, slot, attachment, &held, (open, index))
        });
    Ok(Interface {
        name: interface.name.clone(),
        ifindex: interface.index,
        mode: attachment.mode.name().to_owned(),
        loopback: interface.loopback,
        tap: interface.tap,
        merges: true,
        fallback: record.fallback.clone(),
        program_id: attachment.program_id,
        version: record.version.clone(),
        attached_at: record.attached_at.clone(),
        try_until: attachment.try_until().map(str::to_owned),
        log: super::Log::new(attachment),
        trial_ended: match &attachment.trial {
            Some(OnTrial::Ended(end)) => Some(end.clone()),
            _ => None,
        },
        shadow: settings.shadow,
        malformed: settings.malformed.to_string(),
        frags: record.frags,
        chained: record.chained,
        next_program: attachment.next()?.map(|next| NextProgram {
            program_id: next.id,
            name: next.name,
            mode: next.mode.name().to_owned(),
        }),
        file: record.file.as_ref().map(|path| path.display().to_string()),
        instead_of_file: record.instead.clone(),
        new_sources: settings.new_sources.map(|limit| limit.rate.to_string()),
        exempt: settings
            .exempt
            .names()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        // Only the agent knows the fleet.
        fleet: None,
        limits: limits.collect::<Result<_>>()?,
        lists: lists(record, tables)?,
        bans: BanCounts::new(attachment)?,
        verdicts: verdicts(&counters),
        rates: None,
        drops: Drops::new(&counters),
        passes: Passes::new(&counters),
        delays: Delays::new(&counters),
        sources: Sources {
            capacity: tables.sets.capacity(),
            memory_bytes: attachment.memory(),
            source_bytes: size_of::<Entry>() as u64,
            added: counters.sources_added,
            removed: counters.sources_removed,
            second_chances: counters.second_chances,
            came_again: counters.came_again,
            proven: counters.proven,
            ..sources
        },
        events_lost: tables.events_lost()?,
    })
}

/// A limit with its counters. The first slot also has the counters of the fast path, which serves a single limit.
fn limit(
    configured: &limiter_config::Limit,
    slot: &Slot,
    attachment: &Attachment,
    held: &BTreeMap<u32, u64>,
    (open, index): (Option<&OpenTable>, usize),
) -> Result<Limit> {
    let (record, tables) = (&attachment.record, &attachment.tables);
    let too_long = configured.never_admits(record.frame_max, attachment.frame_max());
    let mut counters = tables.limit(slot.number)?;
    if slot.number == FIRST_SLOT {
        let fast = of_the_only_limit(&tables.fast_path()?);
        counters.admitted = counters.admitted + fast.admitted;
        counters.dropped = counters.dropped + fast.dropped;
        counters.would_drop = counters.would_drop + fast.would_drop;
    }
    let now = clock::now()?;
    let word = tables.scale(slot.number)?;
    Ok(Limit {
        name: configured.name.clone(),
        rate: configured.rate.to_string(),
        burst: configured.burst(record.frame_max)?.to_string(),
        never_admits: too_long.map(|why| why.to_string()),
        key: configured.key.to_string(),
        r#match: (!configured.matches.is_everything())
            .then(|| limiter_config::file::matches(&configured.matches)),
        cost: configured.cost,
        algorithm: configured.algorithm.to_string(),
        hold: configured.hold.map(|hold| hold.to_string()),
        max_delay: configured.max_delay.map(|time| time.to_string()),
        proof: (configured.proof.any()).then(|| configured.proof.to_string()),
        slip: configured.slip,
        held_sources: configured
            .hold
            .map(|_| held.get(&slot.number).copied().unwrap_or(0)),
        adaptive: configured.adaptive.as_ref().map(ToString::to_string),
        adapted: configured
            .adaptive
            .as_ref()
            .map(|_| scale::is_kept(word, now)),
        scale: part(stretch(configured, word, now)),
        connections: configured
            .connections
            .map(|most| connections(most, open, index)),
        shadow: configured.shadow,
        passed: (counters.admitted + counters.would_drop).into(),
        dropped: counters.dropped.into(),
        would_drop: counters.would_drop.into(),
        rates: None,
    })
}

/// The open connections of a key; none if its limit does not bound them.
fn open_of(open: Option<&OpenTable>, key: &SourceKey) -> Option<u64> {
    open?.of_key(key)
}

/// The open connections under the limit with this index.
fn connections(most: u64, open: Option<&OpenTable>, index: usize) -> Connections {
    let totals = open.map(|open| open.totals(index)).unwrap_or_default();
    Connections {
        most,
        open: totals.open,
        keys: totals.keys,
        keys_at_bound: totals.full,
    }
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

/// Scans the table once. `gauge` remembers the previous scan, if there was one.
pub fn sample(attachment: &Attachment, gauge: &mut Gauge) -> Result<Sample> {
    let interface = &attachment.interface;
    let attached = (interface.index, attachment.record.attached_at.clone());
    gauge.begin(attached, attachment.tables.sets.capacity());
    let begun = Instant::now();
    let counted = scan(attachment, gauge)?;
    let elapsed = gauge.end(begun, Instant::now());
    gauge.found.elapsed = elapsed;
    let (chosen, first, sources) = shown(attachment, gauge)?;
    let found = &gauge.found;
    let rate = |count| found.rate(count);
    // The interface is read after the sources, so that it includes all their packets.
    let interface = described(attachment, counted)?;
    let before = gauge.last.replace(interface.clone());
    let delays = interface
        .limits
        .iter()
        .any(|limit| limit.max_delay.is_some());
    let last = before.as_ref().filter(|_| delays && elapsed.is_some());
    let delays = last.map(|last| interface.delays.clone().since(&last.delays));
    let drops = before.as_ref().map(|last| last.drops.clone());
    let top = Top {
        interface: interface.name.clone(),
        interval_seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
        verdicts: interface.verdicts,
        delayed_packets_per_second: delays.as_ref().and_then(|delays| rate(delays.packets)),
        delayed_below_seconds: delays.as_ref().and_then(Delays::most),
        other_drops: rest(&interface.drops, &drops.unwrap_or_default(), &sources, rate),
        sources,
    };
    let over = found.readers.iter().map(|reader| {
        let over = found.over.get(reader.slot as usize);
        let over = over.copied().unwrap_or(0);
        (reader.limit.name.clone(), over)
    });
    Ok(Sample {
        interface,
        before,
        top,
        over: over.collect(),
        matching: found.matching,
        first,
        chosen,
    })
}

/// Shows other sources of the last scan, around the one that is chosen now. Reads no bucket.
pub fn scroll(attachment: &Attachment, gauge: &Gauge, sample: &mut Sample) -> Result<()> {
    (sample.chosen, sample.first, sample.top.sources) = shown(attachment, gauge)?;
    Ok(())
}

/// Reads each source once, and passes it to `gauge`, which keeps the sources to show, in order.
fn scan(attachment: &Attachment, gauge: &mut Gauge) -> Result<Counted> {
    let tables = &attachment.tables;
    let nat64 = attachment.record.settings.translators();
    let readers = readers(attachment)?;
    let by_slot: [_; SLOTS as usize] = std::array::from_fn(|slot| {
        let mut readers = readers.iter().enumerate();
        readers.find(|(_, reader)| reader.slot as usize == slot)
    });
    let open = attachment.open.as_ref();
    let (mut counted, mut held) = Counted::default();
    let (mut busiest, mut matching) = (BTreeMap::new(), 0);
    let mut over = [0; SLOTS as usize];
    let choice = gauge.choice.clone();
    let kept = choice.kept();
    tables.sets.scan(|number, key, source| {
        let reader = by_slot.get(key.slot() as usize).copied().flatten();
        counted.tracked += 1;
        counted.entries += u64::from(key.entries());
        let holds = |reader: &Reader| reader.limit.hold.is_some() && reader.held(source).is_some();
        if reader.is_some_and(|(_, reader)| holds(reader)) {
            *held.entry(key.slot()).or_default() += 1;
        }
        let since = gauge.since(number, key, source);
        // The buckets of a removed limit stay in the table until they are cleared.
        let Some((place_of_limit, reader)) = reader else {
            return;
        };
        if let Some(over) = over.get_mut(key.slot() as usize) {
            *over += since.1;
        }
        if !choice.filter.accepts(&reader.limit, key, &nat64) {
            return;
        }
        matching += 1;
        let is_by = |order| choice.order == order;
        let ranked = Ranked {
            source,
            since,
            shadow: reader.shadow,
            limit: place_of_limit as u64,
            tokens: if is_by(Order::Tokens) {
                reader.tokens(source)
            } else {
                0.0
            },
            held: if is_by(Order::Held) {
                reader.held(source)
            } else {
                None
            },
            open: if is_by(Order::Open) {
                open_of(open, key).unwrap_or(0)
            } else {
                0
            },
        };
        let place = (rank(choice.order, &ranked), Reverse(place(key)));
        let place = if choice.reversed {
            Err(Reverse(place))
        } else {
            Ok(place)
        };
        offer(&mut busiest, kept, place, (*key, *source, since));
    });
    gauge.found = Found {
        rows: busiest.into_values().rev().collect(),
        readers,
        elapsed: None,
        matching,
        over: over.to_vec(),
    };
    Ok((counted, held))
}

/// The tie-breaker between sources with equal numbers. No two sources have the same place.
fn place(key: &SourceKey) -> (u32, u128, u32, u32) {
    let address = u128::from_be_bytes(octets(key.address()));
    (key.family(), address, key.port(), key.slot())
}

/// The chosen source's number, the first one's that is described, and the described ones.
fn shown(attachment: &Attachment, gauge: &Gauge) -> Result<(usize, usize, Vec<TopSource>)> {
    let Found { rows, .. } = &gauge.found;
    let place_of = |key: &SourceKey| rows.iter().position(|(other, ..)| other == key);
    let (chosen, window) = gauge.choice.window(rows.len(), place_of);
    let first = window.start;
    let sources = rows.get(window).unwrap_or_default();
    Ok((chosen, first, sources_of(attachment, gauge, sources)?))
}

/// Sources as shown. The clock is read again, after the buckets.
fn sources_of(
    attachment: &Attachment,
    gauge: &Gauge,
    sources: &[(SourceKey, Source, Since)],
) -> Result<Vec<TopSource>> {
    let found = &gauge.found;
    let open = attachment.open.as_ref();
    let now = clock::now()?;
    let rate = |count| found.rate(count);
    let nat64 = attachment.record.settings.translators();
    let source = |(key, source, since): &(SourceKey, Source, Since)| {
        let reader = found
            .readers
            .iter()
            .find(|reader| reader.slot == key.slot())?;
        let reader = Reader {
            now,
            ..reader.clone()
        };
        let limit = &reader.limit;
        let network = limit.key.network(key, &nat64);
        let listed = network.map(|network| decided_by(attachment, network.addr()));
        Some(listed.transpose().map(|listed| {
            let listed = listed.and_then(|(listed, _)| listed);
            let (passed_since, over_since) = *since;
            let split = |over| if reader.shadow { (0, over) } else { (over, 0) };
            let (dropped, would_drop) = split(source.refused);
            let (dropped_since, would_drop_since) = split(over_since);
            // The drops are counted for the list or the ban.
            let is_counted = !matches!(listed, Some(BAN | DENY));
            let place = network.map(|network| gauge.places.find(network.addr()));
            let place = place.unwrap_or_default();
            TopSource {
                source: limit.key.show(key, &nat64),
                limit: limit.name.clone(),
                country: place.country,
                autonomous_system: place.system,
                passed_packets: source.passed,
                dropped_packets: dropped,
                would_drop_packets: would_drop,
                tokens: reader.tokens(source),
                held_seconds: reader.held(source),
                open_connections: open_of(open, key),
                listed: listed.map(str::to_owned),
                passed_packets_per_second: rate(passed_since),
                dropped_packets_per_second: rate(dropped_since).filter(|_| is_counted),
                would_drop_packets_per_second: rate(would_drop_since),
                shadow: reader.shadow,
                dropped_since,
                key: *key,
                network,
            }
        }))
    };
    sources.iter().filter_map(source).collect()
}
