//! Decides how many entries of the table a limit may hold.

use super::{Engine, Limit};
use crate::{abi::rules::LIMITS_MAX, table::share};

/// Whether the limit in `slot` may hold `wanted` entries. `kept` returns the entries that another limit keeps from it;
/// see [`kept`].
#[inline(always)]
pub fn has_room<E: Engine>(
    engine: &E,
    kept: impl Fn(u32, u32) -> u64,
    slot: u32,
    wanted: u64,
) -> bool {
    if engine.room() == 0 {
        return true;
    }
    let limit = engine.index_of(slot).and_then(|index| engine.limit(index));
    let Some(limit) = limit else {
        return false;
    };
    if share::is_within(limit.share(), wanted) {
        return true;
    }
    if !limit.borrows() {
        return false;
    }
    let mut sum = wanted;
    for index in 0..LIMITS_MAX {
        if index >= engine.limits_length() {
            break;
        }
        sum += kept(index, slot);
    }
    sum <= engine.room().into()
}

/// Entries that the limit with this index keeps from the limit in `slot`; 0 for that limit itself. `held` returns the
/// entries that the limit in a slot holds.
#[inline(always)]
pub fn kept<E: Engine>(engine: &E, held: impl Fn(u32) -> u64, index: u32, slot: u32) -> u64 {
    match engine.limit(index) {
        Some(other) if other.slot() != slot => share::kept(held(other.slot()), other.share()),
        _ => 0,
    }
}
