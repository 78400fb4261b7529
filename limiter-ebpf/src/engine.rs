//! The policy's environment in the kernel: constants, maps, clock.
//!
//! The verifier checks each exported function once, for any number of limits (global functions, Linux 5.6; pointers to
//! memory, 5.12). Each has a stack frame of its own.

use core::mem::offset_of;

use limiter_common::{
    abi::Config,
    policy::{Engine, Evaluation, TimeBounds, bucket, fast, step::Step, verdict::Reason},
    table::{
        Added,
        key::{Address, SourceKey},
    },
};

use crate::{
    bans, clock,
    config::constants,
    context::{self, Context},
    counters,
    entry::Entry,
    lists,
    maps::State,
    new_sources, quota, second_chance, table,
};

/// The policy's environment in the kernel, for one packet: this CPU's own map value.
#[derive(Clone, Copy)]
pub struct Kernel(*mut State);

impl Kernel {
    /// The environment on this CPU.
    #[inline(always)]
    pub fn new() -> Option<Self> {
        clock::of_this_cpu().map(Self)
    }

    /// Prepares the clock for a packet.
    #[inline(always)]
    pub fn begin(&self, context: &Context) {
        // SAFETY: this CPU's own map value.
        unsafe { clock::begin(context, &raw mut (*self.0).clock) };
    }

    /// State of the full path.
    ///
    /// # Safety
    /// Nothing else refers to it while the result is used, except by pointers that come from the result.
    #[inline(always)]
    pub unsafe fn evaluation<'a>(self) -> &'a mut Evaluation {
        // SAFETY: this CPU's own map value, which nothing else uses while the program runs; the clock is another field.
        unsafe { &mut (*self.0).evaluation }
    }
}

/// Implements [`Engine`] by functions of other files, and exports the steps of the full path.
macro_rules! engine {
    (
        calls { $($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:path;)+ }
        steps { $($step:ident = $exported:ident;)+ }
    ) => {
        impl Engine for Kernel {
            const IN_STACK: bool = context::IN_STACK;
            type Entry = Entry;
            type Found = Entry;

            #[inline(always)]
            fn config(&self) -> &Config {
                constants()
            }

            #[inline(always)]
            fn now(&self) -> u64 {
                // SAFETY: this CPU's own map value.
                unsafe { clock::now(&raw mut (*self.0).clock) }
            }

            #[inline(always)]
            fn time_bounds(&self) -> Option<TimeBounds> {
                // SAFETY: this CPU's own map value.
                unsafe { clock::time_bounds(&raw const (*self.0).clock) }
            }

            #[inline(always)]
            fn is_banned(&self, source: &Address, length: u64) -> bool {
                bans::are_there() && bans::drops(source, length, 0)
            }

            $(#[inline(always)]
            fn $name(&self $(, $argument: $type)*) -> $result {
                $call($($argument),*)
            })+

            $(#[inline(always)]
            fn $step(&self, evaluation: &mut Evaluation, index: u32) -> u32 {
                // Not `self.0`: the compiler must see that the step changes this evaluation.
                let state = (&raw mut *evaluation).wrapping_byte_sub(offset_of!(State, evaluation));
                $exported(state.cast(), index)
            })+
        }

        $(#[doc = concat!("[`Step::", stringify!($step), "`], with its codes.")]
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $exported(state: *mut State, index: u32) -> u32 {
            // The verifier requires this check.
            if state.is_null() {
                return 0;
            }
            let kernel = Kernel(state);
            // SAFETY: the caller lends the evaluation to this function.
            match Step::new(&kernel, unsafe { kernel.evaluation() }, index) {
                Some(step) => step.$step(),
                None => bucket::DONE,
            }
        })+
    };
}

engine! {
    calls {
        lists(evaluation: &Evaluation) -> u32 = lists::find;
        lists_of(address: &Address) -> u32 = lists::of_address;
        entry_number(key: &SourceKey) -> u32 = table::entry_number;
        entry(number: u32) -> Option<Entry> = table::entry;
        find(key: &SourceKey) -> Option<Entry> = table::find_inline;
        number_of(entry: Entry) -> u32 = Entry::number;
        is_exhausted(slot: u32) -> bool = new_sources::is_exhausted;
        admits(key: &SourceKey, now: u64, budget: u32, take: bool) -> bool = table::admits;
        was_refused(key: &SourceKey) -> bool = second_chance::was_refused;
        insert(key: &SourceKey, tat: u64, epoch: u32, now: u64, replaces: bool) -> Added = table::add;
        on_present(index: u32, epoch: u32, tat: u64) -> Option<u64> = quota::on_present;
        scale(slot: u32) -> u64 = quota::scale;
        count_limit(slot: u32, reason: Reason, length: u64) -> () = counters::count_limit;
        uncount_limit(slot: u32, length: u64) -> () = counters::uncount_limit;
        refresh_bucket(key: &SourceKey, index: u32) -> u32 = bucket_refresh;
        charge_again(key: &SourceKey, length: u64) -> u32 = source_charge;
        add_source(key: &SourceKey, length: u64, budget: u32) -> u32 = source_add;
        replace_source(key: &SourceKey, length: u64, budget: u32) -> u32 = source_replace;
    }
    steps {
        confirm = limit_matches;
        pair = limit_pair;
        stretch = limit_stretch;
        check = limit_check;
        reserve = limit_reserve;
        charge = limit_charge;
        refresh = limit_refresh;
        add = limit_add;
        replace = limit_replace;
        contended = limit_contended;
        refund = limit_refund;
        uncount = limit_uncount;
        hold = limit_hold;
        count_over = limit_count;
    }
}

/// Exports functions of the policy about a key. Without the key or the CPU's state, they return the last expression.
macro_rules! exports {
    ($($(#[$doc:meta])+ $name:ident($($argument:ident: $type:ty),*) = $call:path, $none:expr;)+) => {$(
        $(#[$doc])+
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $name(key: *const SourceKey, $($argument: $type),*) -> u32 {
            // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
            match (unsafe { key.as_ref() }, Kernel::new()) {
                (Some(key), Some(kernel)) => $call(&kernel, key, $($argument),*),
                _ => $none,
            }
        }
    )+};
}

exports! {
    /// [`bucket::refresh`]. Returns 0. A separate function: the callers' stacks have no room for it.
    bucket_refresh(index: u32) = bucket::refresh, 0;
    /// [`fast::add`]. Returns the number of a [`Reason`], or [`u32::MAX`] if another CPU has made the bucket. A separate
    /// function: the caller's stack has no room for it beside the frame of `is_established` (Linux 6.1).
    source_add(length: u64, budget: u32) = fast::add, Reason::Contended as u32;
    /// [`fast::replace`]. Returns what [`source_add`] does.
    source_replace(length: u64, budget: u32) = fast::replace, Reason::Contended as u32;
    /// [`fast::charge_again`]. Returns a code of [`bucket`].
    source_charge(length: u64) = fast::charge_again, bucket::LOST;
}
