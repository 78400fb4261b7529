//! Decides how many entries of the table a limit may hold.

use crate::{
    abi::{Constants, rules::LIMITS_MAX},
    table::share,
};

/// True if the limit in `slot` may hold `wanted` entries. `kept` returns the entries that another limit keeps from it;
/// see [`kept`].
#[inline(always)]
pub fn has_room(
    constants: &Constants,
    kept: impl Fn(u32, u32) -> u64,
    slot: u32,
    wanted: u64,
) -> bool {
    if constants.room == 0 {
        return true;
    }
    let Some((_, limit)) = constants.limit_in(slot) else {
        return false;
    };
    if share::is_within(limit.share.into(), wanted) {
        return true;
    }
    if limit.borrows == 0 {
        return false;
    }
    let mut sum = wanted;
    for index in 0..LIMITS_MAX {
        if index >= constants.limits_length {
            break;
        }
        sum += kept(index, slot);
    }
    sum <= constants.room.into()
}

/// Entries that the limit with this index keeps from the limit in `slot`; 0 for that limit itself. `held` returns the
/// entries that the limit in a slot holds.
#[inline(always)]
pub fn kept(constants: &Constants, held: impl Fn(u32) -> u64, index: u32, slot: u32) -> u64 {
    match constants.limit(index) {
        Some(other) if other.slot != slot => share::kept(held(other.slot), other.share.into()),
        _ => 0,
    }
}
