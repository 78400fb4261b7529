//! The policy's environment in the kernel: constants, maps, the clock.
//!
//! The verifier checks each exported function once, whatever the number of limits, because its symbol is exported
//! (global functions, Linux 5.6; pointers to memory, 5.12). The stack of one step ends at these functions, too.

use limiter_common::{
    policy::{Between, Engine, Evaluation, bucket, fast, step, verdict::Reason},
    table::{Added, key::Tag},
};

use crate::{
    clock,
    config::{self, Kernel},
    counters,
    entry::{Entry, Found},
    lists, new_sources, quota, table,
};

/// Functions of other files, and then the steps of the full path, with the names under which they are exported.
macro_rules! engine {
    (
        calls { $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:path;)+ }
        steps { $($step:ident = $exported:ident;)+ }
    ) => {
        impl Engine for Kernel {
            type Entry = Entry;
            type Found = Found;

            $(#[inline(always)]
            fn $name(&self $(, $argument: $type)*) -> $result {
                $call($($argument),*)
            })+

            $(#[inline(always)]
            fn $step(&self, evaluation: &mut Evaluation, index: u32) -> u32 {
                $exported(evaluation, index)
            })+
        }

        $(#[doc = concat!("[`step::", stringify!($step), "`], with its codes.")]
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $exported(evaluation: *mut Evaluation, index: u32) -> u32 {
            // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
            match unsafe { evaluation.as_mut() } {
                Some(evaluation) => step::$step(&Kernel, evaluation, index),
                None => 0,
            }
        })+
    };
}

engine! {
    calls {
        candidates(evaluation: &Evaluation) -> u64 = config::candidates;
        uncertain() -> u64 = config::uncertain;
        now() -> u64 = clock::now;
        between() -> Option<Between> = clock::between;
        lists(evaluation: &Evaluation) -> u32 = lists::look_up;
        place_of(tag: &Tag) -> u32 = table::place_of;
        entry(place: u32) -> Option<Entry> = table::entry;
        find(tag: &Tag) -> Option<Entry> = table::find_in_line;
        is_out(slot: u32) -> bool = new_sources::is_out;
        admits(tag: &Tag, now: u64, take: bool) -> bool = table::admits;
        insert(tag: &Tag, tat: u64, epoch: u32, now: u64) -> Added = table::add;
        on_present(index: u32, epoch: u32, tat: u64) -> Option<u64> = quota::on_present;
        count_limit(slot: u32, reason: Reason, length: u64) -> () = counters::count_limit;
        uncount_limit(slot: u32, length: u64) -> () = counters::uncount_limit;
        refresh_bucket(tag: &Tag, index: u32) -> u32 = bucket_refresh;
        charge_again(tag: &Tag, length: u64) -> u32 = source_charge;
        add_source(tag: &Tag, length: u64) -> u32 = source_add;
    }
    steps {
        confirm = limit_matches;
        check = limit_check;
        reserve = limit_reserve;
        charge = limit_charge;
        refresh = limit_refresh;
        add = limit_add;
        contended = limit_contended;
        refund = limit_refund;
        uncount = limit_uncount;
        count_over = limit_count;
    }
}

/// [`bucket::refresh`]. Always 0. Seldom needed: the stack has no room to have it everywhere.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bucket_refresh(tag: *const Tag, index: u32) -> u32 {
    // SAFETY: as above.
    match unsafe { tag.as_ref() } {
        Some(tag) => bucket::refresh(&Kernel, tag, index),
        None => 0,
    }
}

/// [`fast::add`]. Returns the number of a [`Reason`], or [`u32::MAX`] if there is a bucket after all. For its stack:
/// Linux 6.1 rounds a frame up to 32 bytes, and there is no room for more beside that of `is_established`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn source_add(tag: *const Tag, length: u64) -> u32 {
    // SAFETY: as above.
    match unsafe { tag.as_ref() } {
        Some(tag) => fast::add(&Kernel, tag, length),
        None => Reason::Contended as u32,
    }
}

/// [`fast::charge_again`]. Returns the number of a [`bucket::Tried`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn source_charge(tag: *const Tag, length: u64) -> u32 {
    // SAFETY: as above.
    match unsafe { tag.as_ref() } {
        Some(tag) => fast::charge_again(&Kernel, tag, length),
        None => step::LOST,
    }
}
