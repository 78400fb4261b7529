//! The short way: one limit that holds every IP packet, and no lists.

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    counters::PLAIN,
    key::Tag,
    policy::{Parsed, parse},
    verdict::Reason,
};

use crate::bucket::{self, ATTEMPTS, Charged, Demand, NOT_READ, Tried, Weighed};
use crate::packet::Cursor;
use crate::{clock, config, connection, verdict, watch};

/// Which figures are of this way.
pub const ROW: u32 = PLAIN;

/// What becomes of the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let source = match parse(&mut Cursor::new(context)) {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::NotIp | Parsed::Arp(_) => return Reason::NotIp,
        unreadable @ (Parsed::Malformed | Parsed::TooManyTags) => {
            let reason = verdict::in_force(verdict::unreadable(unreadable));
            watch::tell(context, length, reason, Reason::Malformed as u32, 0, 0);
            return reason;
        }
    };
    let Some(limit) = config::limit(0) else {
        return Reason::Unlimited;
    };
    let key = limit.mask().key(0, &source, 0).tag();
    clock::begin(context);
    let charged = charge_unless_exempt(context, limit, &key, length);
    let reason = connection::unless_established(context, charged.reason);
    // What passes in spite of the limit is none of its source's figures, as on the long way.
    let is_exempt = config::established() && matches!(reason, Reason::Established);
    if let Some(entry) = charged.entry.entry()
        && !is_exempt
    {
        entry.count(reason);
    }
    watch::tell(context, length, reason, charged.reason as u32, 0, 1);
    #[cfg(feature = "log")]
    log(context, length, reason);
    reason
}

/// A function of its own, which reads the source again: the stack has no room to keep it while a bucket is made
/// (Linux 6.1).
#[cfg(feature = "log")]
#[inline(never)]
fn log(context: &XdpContext, length: u64, reason: Reason) {
    let mut pointer = context.ctx;
    // SAFETY: does nothing, which LLVM cannot know: it would have the caller read where the packet lies, and pass
    // that on as numbers.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) pointer, options(nostack)) };
    let context = XdpContext::new(pointer);
    if let Parsed::Ipv4(source) | Parsed::Ipv6(source) = parse(&mut Cursor::new(&context)) {
        crate::log::packet(&context, &source, reason, length);
    }
}

/// [`charge`], except that a packet of an exempt connection is not charged.
#[inline(always)]
fn charge_unless_exempt(
    context: &XdpContext,
    limit: config::Limit,
    key: &Tag,
    length: u64,
) -> Charged {
    if config::established() {
        let mut now = NOT_READ;
        let mut demand = Demand::<true>::new(limit, key, &mut now, length);
        match demand.weigh() {
            // Few packets of a flood pass, and a lookup costs more than all else.
            Weighed::Said(Reason::Limit) => return demand.charged(Reason::Limit),
            _ if connection::is_exempt(context) => return Reason::Established.into(),
            _ => {}
        }
    }
    charge(limit, key, length)
}

/// Charges the bucket of `key` for a packet of `length` bytes, if it has enough; makes it where there is
/// none.
#[inline(always)]
pub fn charge(limit: config::Limit, key: &Tag, length: u64) -> Charged {
    let mut now = NOT_READ;
    let mut demand = Demand::<true>::new(limit, key, &mut now, length);
    for _ in 0..ATTEMPTS {
        match demand.charge_known() {
            Tried::Admitted => return demand.charged(Reason::Admitted),
            Tried::Refused => return demand.charged(Reason::Limit),
            Tried::New => match source_add(key, length) {
                RACED => {}
                said => return bucket::reason(said).into(),
            },
            Tried::Lost => {}
            Tried::Stale => {
                bucket::refresh(key, 0);
            }
        }
    }
    Reason::Contended.into()
}

/// What [`source_add`] says where there is a bucket after all.
const RACED: u32 = u32::MAX;

/// Makes the bucket, and charges it. Returns the number of what it says, or [`RACED`]. A function of its
/// own (a global function: Linux 5.6, pointers to memory: 5.12), for its stack: Linux 6.1 rounds what a
/// frame takes up to 32 bytes, and there is no room for more beside that of `is_established`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn source_add(key: *const Tag, length: u64) -> u32 {
    let Some(limit) = config::limit(0) else {
        return Reason::Contended as u32;
    };
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    let Some(key) = (unsafe { key.as_ref() }) else {
        return Reason::Contended as u32;
    };
    match Demand::<false>::new(limit, key, &mut { NOT_READ }, length).charge_new(true) {
        Some(reason) => reason as u32,
        None => RACED,
    }
}
