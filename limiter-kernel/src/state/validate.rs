//! Checks that a limiter could have written a record. Other code computes with it, so a torn or foreign record must
//! give an error, not a panic.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};
use limiter_common::{
    abi::{
        NEXT_FALLBACK,
        rules::{FIRST_TIER, LISTS_MAX},
    },
    arithmetic::{
        bucket::TAU_MAX,
        rescale::{PAST_QUOTAS, Rescale, Shape},
        window::TOKENS_MAX,
    },
    table::key::SLOTS,
};
use limiter_config::Prefixes;

use crate::state::Record;

/// Returns the record's fault as an error. Any phase of a slot is valid: it is that of the limit's first quota, and time
/// wraps.
pub fn fault(record: &Record) -> Result<()> {
    settings(record)?;
    let (bits, known) = (record.tiers.0.values(), FIRST_TIER..LISTS_MAX);
    ensure!(
        are_distinct(bits, |bit| known.contains(bit)),
        "two lists have the same bit, or a bit is out of range"
    );
    if let Some(trial) = record.trial {
        ensure!(
            !trial.falls_back() || NEXT_FALLBACK.contains(&trial.next),
            "the place of its trial's fallback is out of range"
        );
    }
    let limits = record.settings.all_limits();
    let names = limits.iter().map(|limit| &limit.name);
    ensure!(
        names.eq(record.limits.iter().map(|slot| &slot.name)),
        "its limits and its slots have different names"
    );
    let slots = record.limits.iter().map(|slot| &slot.number);
    ensure!(
        are_distinct(slots, |number| *number < SLOTS),
        "two limits have the same slot, or a slot is out of range"
    );
    let mut past = record.limits.iter().map(|slot| &slot.past);
    ensure!(
        past.all(|past| past.len() <= PAST_QUOTAS as usize && past.iter().all(could_be)),
        "a past change of a quota is out of range"
    );
    Ok(())
}

fn are_distinct<'a>(
    mut numbers: impl Iterator<Item = &'a u32>,
    is_in_range: impl Fn(&u32) -> bool,
) -> bool {
    let mut seen = BTreeSet::new();
    numbers.all(|number| is_in_range(number) && seen.insert(number))
}

/// Checks the settings. The lists are in maps; the record has only their names.
fn settings(record: &Record) -> Result<()> {
    let mut settings = record.settings.clone();
    let names = record.tiers.tiers().cloned();
    settings.lists.tiers = names.zip(std::iter::repeat(Prefixes::new())).collect();
    settings.check()?;
    match record.overlay.fault(&settings) {
        Some(fault) => bail!(fault),
        None => Ok(()),
    }
}

/// Returns true if the fields have the ranges that [`Rescale`] documents.
fn could_be(change: &Rescale) -> bool {
    let chunks = change.chunks_most.checked_mul(change.chunk_to);
    shape(&change.from)
        && shape(&change.to)
        && change.chunk_from <= TAU_MAX
        && change.chunk_shift < 63
        && chunks.is_some_and(|product| product < 1 << 63)
}

fn shape(Shape { tau, window }: &Shape) -> bool {
    let most = if window.period == 0 {
        TAU_MAX
    } else {
        TOKENS_MAX
    };
    *tau <= most && window.grant <= TOKENS_MAX
}
