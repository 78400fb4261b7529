//! Checks that a limiter could have written a record. Other code computes with it, so a torn or foreign record must
//! give an error, not a panic.

use std::collections::{BTreeMap, BTreeSet};

use limiter_common::{
    abi::rules::{FIRST_TIER, LISTS_MAX},
    arithmetic::{
        bucket::TAU_MAX,
        rescale::{PAST_QUOTAS, Rescale, Shape},
        window::TOKENS_MAX,
    },
    table::key::SLOTS,
};

use crate::{
    config::{Prefixes, Slot},
    kernel::state::Record,
};

/// Returns the record's fault as an error.
pub fn fault(record: &Record) -> Result<(), String> {
    settings(record)?;
    tiers(record)?;
    let limits = record.settings.all_limits();
    let names = limits.iter().map(|limit| &limit.name);
    if !names.eq(record.limits.iter().map(|slot| &slot.name)) {
        return Err("its limits and its slots have different names".to_owned());
    }
    let slots: BTreeSet<_> = record.limits.iter().map(|slot| slot.number).collect();
    let beyond = slots.last().is_some_and(|number| *number >= SLOTS);
    if beyond || slots.len() < record.limits.len() {
        return Err("two limits have the same slot, or a slot is out of range".to_owned());
    }
    if record.limits.iter().all(is_sound) {
        return Ok(());
    }
    Err("a past change of a quota is out of range".to_owned())
}

/// Checks the settings. The lists are in maps; the record has only their names.
fn settings(record: &Record) -> Result<(), String> {
    let mut settings = record.settings.clone();
    let names = record.tiers.tiers().cloned();
    settings.lists.tiers = names.zip(std::iter::repeat(Prefixes::new())).collect();
    settings.check().map_err(|why| why.to_string())?;
    match record.overlay.fault(&settings) {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(()),
    }
}

fn tiers(record: &Record) -> Result<(), String> {
    let bits: BTreeMap<_, _> = record
        .tiers
        .0
        .iter()
        .map(|(name, bit)| (bit, name))
        .collect();
    let mut known = bits.keys().copied();
    if bits.len() == record.tiers.0.len() && known.all(|bit| (FIRST_TIER..LISTS_MAX).contains(bit))
    {
        return Ok(());
    }
    Err("two lists have the same bit, or a bit is out of range".to_owned())
}

/// Whether a limiter could have written the slot. Any phase is valid: it is that of the limit's first quota, and time
/// wraps.
fn is_sound(slot: &Slot) -> bool {
    slot.past.len() <= PAST_QUOTAS as usize && slot.past.iter().all(could_be)
}

/// Whether the fields have the ranges that [`Rescale`] documents.
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
