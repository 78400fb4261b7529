//! How many entries of the table a limit may hold.

use super::{Constants, Limit};
use crate::{abi::rules::LIMITS_MAX, table::share};

/// Whether the limit in `slot` may hold this many entries, of which `held` says how many each slot has.
#[inline(always)]
pub fn has_room<C: Constants>(
    constants: &C,
    held: impl Fn(u32) -> u64,
    slot: u32,
    wanted: u64,
) -> bool {
    if constants.room() == 0 {
        return true;
    }
    let limit = constants
        .index_of(slot)
        .and_then(|index| constants.limit(index));
    let Some(limit) = limit else {
        return false;
    };
    if share::is_within(limit.share(), wanted) {
        return true;
    }
    if !limit.borrows() {
        return false;
    }
    let mut kept = wanted;
    for index in 0..LIMITS_MAX {
        if index >= constants.limits_length() {
            break;
        }
        if let Some(other) = constants.limit(index)
            && other.slot() != slot
        {
            kept += share::kept(held(other.slot()), other.share());
        }
    }
    kept <= constants.room().into()
}
