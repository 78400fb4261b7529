//! Takes the packet's cost from its source's bucket, or refuses it: lookup, decision, one
//! compare-and-swap. The arithmetic is [`limiter_common::bucket`]; here is only what a race needs.

use limiter_common::{
    bucket::{self, CONVERTING, Decision},
    key::SourceKey,
    layout::Source,
    verdict::Reason,
};

use crate::table::{self, Added};
use crate::{atomic, config};

/// Losing this often means that others made progress as often; then the packet is refused.
const ATTEMPTS: u32 = 8;

/// What a bucket said, and the entry that it stands in, where there is one.
pub struct Charged {
    /// [`Reason::Admitted`], [`Reason::Limit`], [`Reason::Newcomer`] or [`Reason::Contended`].
    pub reason: Reason,
    /// For the source's own figures.
    pub source: Option<*mut Source>,
}

/// Charges a packet of `length` bytes to the bucket of `key`.
#[inline(always)]
pub fn charge(key: &SourceKey, length: u64, now: u64) -> Charged {
    let terms = config::terms();
    let cost = terms.cost_of(length);
    for _ in 0..ATTEMPTS {
        let witness = table::witness();
        let Some(source) = table::find(key) else {
            match table::add(key, bucket::time(now.wrapping_add(cost)), now) {
                Added::Done => {
                    return Charged { reason: Reason::Admitted, source: table::find(key) };
                }
                Added::Raced => continue,
                Added::NoRoom => return Charged { reason: Reason::Newcomer, source: None },
            }
        };
        let Some(tat) = current_word(source) else { continue };
        match bucket::decide(tat, now, cost, terms.tau) {
            Decision::Refuse { .. } => {
                if table::moved_since(witness) {
                    continue;
                }
                correct(source, tat, now, terms.tau);
                return Charged { reason: Reason::Limit, source: Some(source) };
            }
            Decision::Admit { tat: charged } => {
                // SAFETY: `source` points to a map value, whose first word is aligned.
                if unsafe { atomic::compare_and_swap(word(source), tat, charged) } != tat {
                    continue;
                }
                if table::moved_since(witness) && table::find(key) != Some(source) {
                    give_back(source, tat, charged);
                    continue;
                }
                return Charged { reason: Reason::Admitted, source: Some(source) };
            }
        }
    }
    Charged { reason: Reason::Contended, source: table::find(key) }
}

/// Keeps a source from being locked out by a clock that was set back. Whoever comes first does it.
#[inline(always)]
fn correct(source: *mut Source, tat: u64, now: u64, tau: u64) {
    if let Some(corrected) = bucket::corrected(tat, now, tau) {
        // SAFETY: `source` points to a map value, whose first word is aligned.
        unsafe { atomic::compare_and_swap(word(source), tat, corrected) };
    }
}

/// The slot had become another source's between finding it and charging it: takes back exactly what
/// was added.
#[inline(always)]
fn give_back(source: *mut Source, tat: u64, charged: u64) {
    // SAFETY: `source` points to a map value, whose first word is aligned.
    unsafe { atomic::add(word(source), tat.wrapping_sub(charged)) };
}

#[inline(always)]
fn word(source: *mut Source) -> *mut u64 {
    // SAFETY: a field of a map value, within its bounds.
    unsafe { &raw mut (*source).tat }
}

/// The bucket's word on the present terms; nothing where it is being removed or converted by another
/// CPU, or has been taken further than this program knows.
#[inline(always)]
fn current_word(source: *mut Source) -> Option<u64> {
    // The epoch is read first: a converter writes it before the word, so that an epoch seen as
    // present never goes with a word on past terms that a compare-and-swap would accept.
    // SAFETY: fields of a map value.
    let (epoch, tat) =
        unsafe { (atomic::load(&raw const (*source).epoch), atomic::load(word(source))) };
    if !bucket::is_time(tat) {
        return None;
    }
    if epoch == config::epoch() {
        return Some(tat);
    }
    convert(source, epoch, tat)
}

/// Brings a bucket from past terms to the present ones, while [`CONVERTING`] keeps others away.
#[inline(always)]
fn convert(source: *mut Source, epoch: u64, tat: u64) -> Option<u64> {
    let converted = on_present_terms(epoch, tat)?;
    // SAFETY: fields of a map value. The first compare-and-swap takes the word, the last one gives
    // it back, and orders the epoch before it.
    unsafe {
        if atomic::compare_and_swap(word(source), tat, CONVERTING) != tat {
            return None;
        }
        atomic::store(&raw mut (*source).epoch, config::epoch());
        atomic::compare_and_swap(word(source), CONVERTING, converted);
    }
    Some(converted)
}

/// A word that was written in `epoch`, on the terms of this program. Nothing where the epoch is later
/// than this program's: it has been replaced, and this is its last packet on this CPU.
#[inline(always)]
pub fn on_present_terms(epoch: u64, tat: u64) -> Option<u64> {
    if epoch == config::epoch() {
        return Some(tat);
    }
    let word = carried_over(epoch, tat);
    bucket::is_time(word).then_some(word)
}

/// [`bucket::carry_over`] as a function of its own, which the verifier checks once instead of at every
/// turn of the loops that it is called from: that is what an exported symbol means to it
/// (Documentation/bpf/verifier.rst, "global functions"). [`bucket::RETIRED`] stands for nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(epoch: u64, tat: u64) -> u64 {
    let behind = config::epoch().wrapping_sub(epoch);
    if behind.cast_signed() < 0 {
        return bucket::RETIRED;
    }
    bucket::carry_over(tat, behind, config::past_length(), config::past).unwrap_or(bucket::RETIRED)
}
