//! Takes the packet's cost from its source's bucket, or refuses it: lookup, decision, one
//! compare-and-swap. The arithmetic is [`limiter_common::bucket`]; here is only what a race needs.

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    bucket::{self, CONVERTING, Decision},
    key::SourceKey,
    verdict::Reason,
};

use crate::entry::Entry;
use crate::table::{self, Added};
use crate::{clock, config, terms};

/// Losing this often means that others made progress as often; then the packet is refused.
const ATTEMPTS: u32 = 8;

/// What a bucket said, and the entry that it stands in, where there is one.
pub struct Charged {
    /// [`Reason::Admitted`], [`Reason::Limit`], [`Reason::Newcomer`] or [`Reason::Contended`].
    pub reason: Reason,
    /// For the source's own figures.
    pub entry: Option<Entry>,
}

/// A packet that wants to pass.
struct Demand<'a> {
    context: &'a XdpContext,
    key: &'a SourceKey,
    now: u64,
    cost: u64,
    tau: u64,
}

/// Charges a packet of `length` bytes to the bucket of `key`.
#[inline(always)]
pub fn charge(context: &XdpContext, key: &SourceKey, length: u64) -> Charged {
    let terms = config::terms();
    let (now, cost) = (clock::now(context), terms.cost_of(length));
    let demand = Demand {
        context,
        key,
        now,
        cost,
        tau: terms.tau,
    };
    for _ in 0..ATTEMPTS {
        let witness = table::witness();
        let charged = match table::find(key) {
            Some(entry) => charge_known(&demand, entry, witness),
            None => charge_new(&demand),
        };
        if let Some(charged) = charged {
            return charged;
        }
    }
    Charged {
        reason: Reason::Contended,
        entry: table::find(key),
    }
}

/// The bucket of a source that is not in the table is full. Nothing where another CPU has brought the
/// source in meanwhile.
#[inline(always)]
fn charge_new(demand: &Demand) -> Option<Charged> {
    let Decision::Admit { tat } = bucket::decide(demand.now, demand.now, demand.cost, demand.tau)
    else {
        return Some(Charged {
            reason: Reason::Limit,
            entry: None,
        });
    };
    match table::add(demand.key, tat, demand.now) {
        Added::Done => Some(Charged {
            reason: Reason::Admitted,
            entry: table::find(demand.key),
        }),
        Added::Raced => None,
        Added::NoRoom => Some(Charged {
            reason: Reason::Newcomer,
            entry: None,
        }),
    }
}

/// Nothing where the race for the bucket was lost, or the entry has become another source's.
#[inline(always)]
fn charge_known(demand: &Demand, entry: Entry, witness: u64) -> Option<Charged> {
    let tat = current_word(entry)?;
    match bucket::decide(tat, demand.now, demand.cost, demand.tau) {
        Decision::Refuse { .. } => {
            if changed_hands(demand.key, entry, witness) {
                return None;
            }
            correct(demand, entry, tat);
            Some(Charged {
                reason: Reason::Limit,
                entry: Some(entry),
            })
        }
        Decision::Admit { tat: charged } => {
            if !entry.swap_tat(tat, charged) {
                return None;
            }
            if changed_hands(demand.key, entry, witness) {
                // Another source was charged. If its bucket has changed since, the charge stays:
                // that errs towards refusing.
                entry.swap_tat(charged, tat);
                return None;
            }
            Some(Charged {
                reason: Reason::Admitted,
                entry: Some(entry),
            })
        }
    }
}

/// Whether the entry that was found after `witness` is no longer that of `key`.
#[inline(always)]
fn changed_hands(key: &SourceKey, entry: Entry, witness: u64) -> bool {
    table::moved_since(witness) && table::find(key) != Some(entry)
}

/// Keeps a source from being locked out by a clock that was set back. Whoever comes first does it.
///
/// The clock is read again, after the word: this CPU may have been stopped (a virtual one is, for
/// milliseconds) between reading the clock and the bucket, which others went on charging.
#[inline(always)]
fn correct(demand: &Demand, entry: Entry, tat: u64) {
    if bucket::corrected(tat, demand.now, demand.tau).is_none() {
        return;
    }
    if let Some(corrected) = bucket::corrected(tat, clock::now(demand.context), demand.tau) {
        entry.swap_tat(tat, corrected);
    }
}

/// The bucket's word on the present terms; nothing where it is being removed or converted by another
/// CPU, or has been taken further than this program knows.
#[inline(always)]
fn current_word(entry: Entry) -> Option<u64> {
    let (epoch, tat) = (entry.epoch(), entry.tat());
    if !bucket::is_time(tat) {
        return None;
    }
    if epoch == config::epoch() {
        return Some(tat);
    }
    convert(entry, epoch, tat)
}

/// Brings a bucket from past terms to the present ones, while [`CONVERTING`] keeps others away.
#[inline(always)]
fn convert(entry: Entry, epoch: u32, tat: u64) -> Option<u64> {
    let converted = terms::on_present(epoch, tat)?;
    if !entry.swap_tat(tat, CONVERTING) {
        return None;
    }
    // Another CPU may have converted it between the two reads that brought epoch and word.
    if entry.epoch() != epoch {
        entry.swap_tat(CONVERTING, tat);
        return None;
    }
    entry.set_epoch(config::epoch());
    // A compare-and-swap, because it orders the epoch before the word.
    entry.swap_tat(CONVERTING, converted);
    Some(converted)
}
