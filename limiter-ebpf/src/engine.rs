//! What the policy runs on in the kernel: constants, maps, the clock.
//!
//! The exported functions are checked once by the verifier, whatever the number of limits: that is what
//! an exported symbol means to it (global functions, Linux 5.6; pointers to memory, 5.12). They are also where the stack
//! of one step ends.

use limiter_common::{
    key::Tag,
    policy::{Between, Engine, Evaluation, bucket, fast, full},
    table::Added,
    verdict::Reason,
};

use crate::config::Kernel;
use crate::entry::{Entry, Found};
use crate::{clock, config, counters, lists, new_sources, table, terms};

/// Calls the exported step instead of having it in line.
macro_rules! steps {
    ($($step:ident: $exported:ident),+ $(,)?) => {$(
        #[inline(always)]
        fn $step(&self, evaluation: &mut Evaluation, index: u32) -> u32 {
            $exported(evaluation, index)
        }
    )+};
}

impl Engine for Kernel {
    type Entry = Entry;
    type Found = Found;

    #[inline(always)]
    fn candidates(&self, evaluation: &Evaluation) -> u64 {
        config::candidates(&evaluation.info)
    }

    #[inline(always)]
    fn look_closer(&self) -> u64 {
        config::look_closer()
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        clock::now()
    }

    #[inline(always)]
    fn between(&self) -> Option<Between> {
        clock::between()
    }

    #[inline(always)]
    fn lists(&self, evaluation: &Evaluation) -> u32 {
        lists::look_up(evaluation)
    }

    #[inline(always)]
    fn place_of(&self, tag: &Tag) -> u32 {
        table::place_of(tag)
    }

    #[inline(always)]
    fn entry(&self, place: u32) -> Option<Entry> {
        table::entry(place)
    }

    #[inline(always)]
    fn find(&self, tag: &Tag) -> Option<Entry> {
        table::find_in_line(tag)
    }

    #[inline(always)]
    fn is_out(&self, slot: u32) -> bool {
        new_sources::is_out(slot)
    }

    #[inline(always)]
    fn admits(&self, tag: &Tag, now: u64, take: bool) -> bool {
        table::admits(tag, now, take)
    }

    #[inline(always)]
    fn add(&self, tag: &Tag, tat: u64, epoch: u32, now: u64) -> Added {
        table::add(tag, tat, epoch, now)
    }

    #[inline(always)]
    fn on_present(&self, index: u32, epoch: u32, tat: u64) -> Option<u64> {
        terms::on_present(index, epoch, tat)
    }

    #[inline(always)]
    fn count_limit(&self, slot: u32, reason: Reason, length: u64) {
        counters::count_limit(slot, reason, length);
    }

    #[inline(always)]
    fn uncount_limit(&self, slot: u32, length: u64) {
        counters::uncount_limit(slot, length);
    }

    #[inline(always)]
    fn refresh(&self, tag: &Tag, index: u32) -> u32 {
        bucket_refresh(tag, index)
    }

    #[inline(always)]
    fn add_source(&self, tag: &Tag, length: u64) -> u32 {
        source_add(tag, length)
    }

    steps! {
        limit_matches: limit_matches,
        check: limit_check,
        reserve: limit_reserve,
        charge: limit_charge,
        refresh_limit: limit_refresh,
        add_limit: limit_add,
        contended: limit_contended,
        refund: limit_refund,
        count_over: limit_count,
    }
}

/// [`bucket::refresh`]. Seldom needed: the stack has no room to have it everywhere.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bucket_refresh(tag: *const Tag, index: u32) -> u32 {
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    match unsafe { tag.as_ref() } {
        Some(tag) => bucket::refresh(&Kernel, tag, index),
        None => 0,
    }
}

/// [`fast::add`]. For its stack: Linux 6.1 rounds what a frame takes up to 32 bytes, and there is no room for more beside
/// that of `is_established`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn source_add(tag: *const Tag, length: u64) -> u32 {
    // SAFETY: as above.
    match unsafe { tag.as_ref() } {
        Some(tag) => fast::add(&Kernel, tag, length),
        None => Reason::Contended as u32,
    }
}

/// Exports a step of the full path.
macro_rules! export {
    ($($name:ident: $step:ident),+ $(,)?) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $name(evaluation: *mut Evaluation, index: u32) -> u32 {
            // SAFETY: as above.
            match unsafe { evaluation.as_mut() } {
                Some(evaluation) => full::$step(&Kernel, evaluation, index),
                None => 0,
            }
        }
    )+};
}

export! {
    limit_matches: look_closer,
    limit_check: check,
    limit_reserve: reserve,
    limit_charge: charge,
    limit_refresh: refresh,
    limit_add: add,
    limit_contended: contended,
    limit_refund: refund,
    limit_count: count_over,
}
