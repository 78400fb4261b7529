//! From an attachment's maps to plain types.

use limiter_common::{counters::Counters, layout::Config, verdict::Reason};

use super::{
    Interface, Limit, Sources, drops,
    source::{Reader, Top, TopSource},
    verdicts,
};
use crate::config::settings;
use crate::kernel::{
    Attachment, error::Result, interface::Interface as Device, maps::Tables, record::Record, set,
};

/// Everything that `status` shows of an attachment.
pub fn interface(attachment: &Attachment) -> Result<Interface> {
    let tables = &attachment.tables;
    let tracked = tables.sources()?.len() as u64;
    let counters = tables.counters()?;
    let described = describe(
        &attachment.interface,
        attachment.mode.name(),
        attachment.program_id,
        &attachment.record,
        &counters,
        Sources {
            tracked,
            capacity: attachment.record.settings.max_sources.into(),
            memory_bytes: tables.memory,
            added: counters.sources_added,
            removed: counters.sources_removed,
        },
    )?;
    Ok(Interface {
        try_until: attachment.try_until(),
        ..described
    })
}

fn describe(
    device: &Device,
    mode: &'static str,
    program_id: u32,
    record: &Record,
    counters: &Counters,
    sources: Sources,
) -> Result<Interface> {
    let settings = &record.settings;
    Ok(Interface {
        name: device.name.clone(),
        ifindex: device.index,
        mode,
        fallback: record.fallback.clone(),
        program_id,
        attached_at: record.attached_at.clone(),
        try_until: None,
        shadow: settings.shadow,
        malformed: settings.malformed.name(),
        logging: record.logging,
        frags: record.frags,
        limits: vec![limit(record, counters)?],
        packets: verdicts(counters, |count| count.packets),
        bytes: verdicts(counters, |count| count.bytes),
        drops: drops(counters),
        sources,
    })
}

fn limit(record: &Record, counters: &Counters) -> Result<Limit> {
    let settings::Limit {
        name, rate, key, ..
    } = &record.settings.limit;
    let of = |reason: Reason| counters.by_reason[reason as usize];
    Ok(Limit {
        name: name.clone(),
        rate: rate.to_string(),
        burst: record.settings.limit.burst(record.frame_max)?.to_string(),
        key: key.to_string(),
        algorithm: "token-bucket",
        shadow: false,
        passed: (of(Reason::Admitted) + of(Reason::WouldDrop)).into(),
        dropped: (of(Reason::Limit) + of(Reason::Newcomer) + of(Reason::Contended)).into(),
        would_drop: of(Reason::WouldDrop).into(),
    })
}

/// What reads the buckets of an attachment, as of now.
pub fn reader(record: &Record) -> Result<Reader> {
    let Config {
        terms,
        epoch,
        past,
        past_length,
        ..
    } = record.config()?;
    Ok(Reader {
        terms,
        burst: record.settings.limit.burst(record.frame_max)?.tokens,
        epoch,
        past: past.into_iter().take(past_length as usize).collect(),
        now: set::now()?,
    })
}

/// The sources that dropped most, then those that passed most; at most `most` of them.
pub fn top(interface: &str, record: &Record, tables: &Tables, most: usize) -> Result<Top> {
    // The clock is read after the buckets: otherwise a packet in between would seem to come from the
    // future.
    let mut entries = tables.sources()?;
    let reader = reader(record)?;
    entries.sort_by_key(|(_, source)| {
        std::cmp::Reverse((
            source.dropped.packets,
            source.would_drop.packets,
            source.passed.packets,
        ))
    });
    let key = record.settings.limit.key;
    let line = |(source, entry): &_| -> TopSource { reader.top(key.show(source), entry) };
    Ok(Top {
        interface: interface.to_owned(),
        sources: entries.iter().take(most).map(line).collect(),
    })
}
