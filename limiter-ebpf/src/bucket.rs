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

/// Charges a packet of `length` bytes to the bucket of `key`.
#[inline(always)]
pub fn charge(context: &XdpContext, key: &SourceKey, length: u64) -> Charged {
    let now = clock::now(context);
    let limit = config::terms();
    let cost = limit.cost_of(length);
    for _ in 0..ATTEMPTS {
        let witness = table::witness();
        let Some(entry) = table::find(key) else {
            match table::add(key, bucket::time(now.wrapping_add(cost)), now) {
                Added::Done => {
                    return Charged {
                        reason: Reason::Admitted,
                        entry: table::find(key),
                    };
                }
                Added::Raced => continue,
                Added::NoRoom => {
                    return Charged {
                        reason: Reason::Newcomer,
                        entry: None,
                    };
                }
            }
        };
        let Some(tat) = current_word(entry) else {
            continue;
        };
        match bucket::decide(tat, now, cost, limit.tau) {
            Decision::Refuse { .. } => {
                if table::moved_since(witness) {
                    continue;
                }
                if bucket::corrected(tat, now, limit.tau).is_some() {
                    correct(entry, tat, clock::now(context), limit.tau);
                }
                return Charged {
                    reason: Reason::Limit,
                    entry: Some(entry),
                };
            }
            Decision::Admit { tat: charged } => {
                if !entry.swap_tat(tat, charged) {
                    continue;
                }
                if table::moved_since(witness) && table::find(key) != Some(entry) {
                    // The entry had become another source's between finding and charging it: what
                    // was added is taken back.
                    entry.add_to_tat(tat.wrapping_sub(charged));
                    continue;
                }
                return Charged {
                    reason: Reason::Admitted,
                    entry: Some(entry),
                };
            }
        }
    }
    Charged {
        reason: Reason::Contended,
        entry: table::find(key),
    }
}

/// Keeps a source from being locked out by a clock that was set back. Whoever comes first does it.
///
/// `later` was read after `tat`: this CPU may have been stopped (a virtual one is, for milliseconds)
/// between reading the clock and the bucket, which others went on charging.
#[inline(always)]
fn correct(entry: Entry, tat: u64, later: u64, tau: u64) {
    if let Some(corrected) = bucket::corrected(tat, later, tau) {
        entry.swap_tat(tat, corrected);
    }
}

/// The bucket's word on the present terms; nothing where it is being removed or converted by another
/// CPU, or has been taken further than this program knows.
#[inline(always)]
fn current_word(entry: Entry) -> Option<u64> {
    // The epoch is read first: a converter writes it before the word, so that an epoch seen as
    // present never goes with a word on past terms that a compare-and-swap would accept.
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
fn convert(entry: Entry, epoch: u64, tat: u64) -> Option<u64> {
    let converted = terms::on_present(epoch, tat)?;
    if !entry.swap_tat(tat, CONVERTING) {
        return None;
    }
    entry.set_epoch(config::epoch());
    // A compare-and-swap, because it orders the epoch before the word.
    entry.swap_tat(CONVERTING, converted);
    Some(converted)
}
