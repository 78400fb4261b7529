//! The policy's environment in the kernel: constants, maps, clock.
//!
//! The verifier checks each exported function once, for any number of limits (global functions, Linux 5.6; pointers to
//! memory, 5.12). Each has a stack frame of its own.

use core::{arch::asm, mem::offset_of};

use limiter_common::{
    abi::{Constants, rules::ON_BAN},
    policy::{
        Environment, Evaluation, Steps, TimeBounds,
        attempt::{Attempt, Code},
        bucket, fast,
        step::Step,
        verdict::Reason,
    },
    table::{
        Added,
        key::{Address, SourceKey},
    },
};

use crate::{
    bans, clock,
    constants::constants,
    context::{self, Context},
    counters,
    entry_place::EntryPlace,
    list_lookup,
    maps::State,
    new_sources, open, past_quota, second_chance,
    switches::Asked,
    table,
};

/// The policy's environment in the kernel, for one packet: this CPU's own map value, and the switches, if they are looked
/// up only once.
#[derive(Clone, Copy)]
pub struct Kernel {
    state: *mut State,
    /// Of the fast path, which asks them twice.
    pub switches: Option<Asked>,
}

impl Kernel {
    /// The environment on this CPU.
    #[inline(always)]
    pub fn new() -> Option<Self> {
        clock::of_this_cpu().map(Self::of)
    }

    #[inline(always)]
    const fn of(state: *mut State) -> Self {
        let switches = None;
        Self { state, switches }
    }

    /// Prepares the clock for a packet.
    #[inline(always)]
    pub fn begin(&self, context: &Context) {
        // SAFETY: this CPU's own map value.
        unsafe { clock::begin(context, &raw mut (*self.state).clock) };
    }

    /// State of the full path.
    ///
    /// # Safety
    /// Nothing else refers to it while the result is used, except by pointers that come from the result.
    #[inline(always)]
    pub unsafe fn evaluation<'a>(self) -> &'a mut Evaluation {
        // SAFETY: this CPU's own map value, which nothing else uses while the program runs; the clock is another field.
        unsafe { &mut (*self.state).evaluation }
    }
}

/// Hides the value from the compiler, in a register: `black_box` would write it to the stack and read it again.
#[inline(always)]
fn hidden(mut value: u64) -> u64 {
    // SAFETY: does nothing. An instruction, because the kernel refuses two source lines for one place.
    unsafe {
        asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack));
    }
    value
}

/// Implements [`Environment`] by functions of other files.
macro_rules! environment {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:path;)+) => {
        impl Environment for Kernel {
            const IN_STACK: bool = context::IN_STACK;
            type Entry = EntryPlace;
            type Found = EntryPlace;

            #[inline(always)]
            fn hidden(value: u64) -> u64 {
                hidden(value)
            }

            #[inline(always)]
            fn constants(&self) -> &Constants {
                constants()
            }

            #[inline(always)]
            fn now(&self) -> u64 {
                // SAFETY: this CPU's own map value.
                unsafe { clock::now(&raw mut (*self.state).clock) }
            }

            #[inline(always)]
            fn time_bounds(&self) -> Option<TimeBounds> {
                // SAFETY: this CPU's own map value.
                unsafe { clock::time_bounds(&raw const (*self.state).clock) }
            }

            #[inline(always)]
            fn is_banned(&self, source: &Address, length: u64) -> bool {
                // A copy, so that other packets need not write the address to memory.
                let switches = self.switches.unwrap_or_else(Asked::look_up);
                switches.are_there_bans() && bans::find(&{ *source }, length, 0) & ON_BAN != 0
            }

            $(#[inline(always)]
            fn $name(&self $(, $argument: $type)*) -> $result {
                $call($($argument),*)
            })+
        }
    };
}

/// Implements [`Steps`] by global functions, and exports these: functions of the policy about a key, and steps of the
/// full path. Each returns a [`Code`].
macro_rules! steps {
    (
        keys { $(
            $(#[$doc:meta])*
            $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:path as $function:ident, $none:expr;
        )+ }
        steps { $(
            $step:ident($($extra:ident: $extra_type:ty)?) -> $step_result:ty as $exported:ident;
        )+ }
    ) => {
        impl Steps for Kernel {
            $(#[inline(always)]
            fn $name(&self, key: &SourceKey $(, $argument: $type)*) -> $result {
                // A copy, so that other packets need not write the key to memory.
                let key = *key;
                Code::from_code($function(&raw const key $(, $argument)*))
            })+

            $(#[inline(always)]
            fn $step(&self, evaluation: &mut Evaluation, index: u32 $(, $extra: $extra_type)?) -> $step_result {
                // Not `self.state`: the compiler must see that the step changes this evaluation.
                let state = (&raw mut *evaluation).wrapping_byte_sub(offset_of!(State, evaluation));
                Code::from_code($exported(state.cast(), index $(, $extra)?))
            })+
        }

        $(#[doc = concat!("[`", stringify!($call), "`]. Without the CPU's state, it returns the last expression.")]
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $function(key: *const SourceKey $(, $argument: $type)*) -> u32 {
            // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
            match (unsafe { key.as_ref() }, Kernel::new()) {
                (Some(key), Some(kernel)) => $call(&kernel, key $(, $argument)*).to_code(),
                _ => $none.to_code(),
            }
        })+

        $(#[doc = concat!("[`Step::", stringify!($step), "`].")]
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $exported(state: *mut State, index: u32 $(, $extra: $extra_type)?) -> u32 {
            // The verifier requires this check.
            if state.is_null() {
                return 0;
            }
            let kernel = Kernel::of(state);
            // SAFETY: the caller lends the evaluation to this function.
            match Step::new(&kernel, unsafe { kernel.evaluation() }, index) {
                Some(step) => step.$step($($extra)?).to_code(),
                None => 0,
            }
        })+
    };
}

environment! {
    lists(evaluation: &Evaluation) -> u32 = list_lookup::find;
    lists_of(address: &Address) -> u32 = list_lookup::of_address;
    entry_number(key: &SourceKey) -> u32 = table::entry_number;
    entry(number: u32) -> Option<EntryPlace> = table::entry;
    likely(key: &SourceKey) -> Option<EntryPlace> = table::likely;
    number_of(entry: EntryPlace) -> u32 = EntryPlace::number;
    is_any_full() -> bool = open::is_any_full;
    open_connections(line: u32, tag: u64) -> u64 = open::connections;
    is_exhausted(slot: u32) -> bool = new_sources::is_exhausted;
    admits(key: &SourceKey, now: u64, budget: u32, take: bool) -> bool = table::admits;
    was_refused(key: &SourceKey) -> bool = second_chance::was_refused;
    insert(key: &SourceKey, tat: u64, epoch: u32, now: u64, replaces: bool) -> Added = table::add;
    on_present(index: u32, epoch: u32, tat: u64) -> Option<u64> = past_quota::on_present;
    scale(slot: u32) -> u64 = past_quota::scale;
    count_limit(slot: u32, reason: Reason, length: u64) -> () = counters::count_limit;
    uncount_limit(slot: u32, length: u64) -> () = counters::uncount_limit;
}

steps! {
    keys {
        /// A separate function: the callers' stacks have no room for it.
        refresh_bucket(index: u32) -> () = bucket::refresh as bucket_refresh, ();
        charge_again(length: u64) -> Attempt = fast::charge_again as source_charge, Attempt::Lost;
        /// A separate function: the caller's stack has no room for it beside the frame of `is_established` (Linux 6.1).
        add_source(length: u64, budget: u32) -> Attempt = fast::add as source_add, Attempt::Lost;
        replace_source(length: u64, budget: u32) -> Attempt = fast::replace as source_replace, Attempt::Lost;
    }
    steps {
        confirm() -> () as limit_matches;
        is_certain() -> bool as limit_certain;
        pair() -> () as limit_pair;
        stretch() -> () as limit_stretch;
        check() -> Attempt as limit_check;
        lacks_bucket() -> bool as limit_reserve;
        charge() -> Attempt as limit_charge;
        refresh() -> () as limit_refresh;
        add() -> Attempt as limit_add;
        replace(budget: u32) -> Attempt as limit_replace;
        contended() -> Attempt as limit_contended;
        refund() -> bool as limit_refund;
        uncount() -> () as limit_uncount;
        hold() -> bool as limit_hold;
        count_over() -> () as limit_count;
        is_full() -> bool as limit_full;
    }
}
