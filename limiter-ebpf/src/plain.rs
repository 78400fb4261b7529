//! The short way: one limit that holds every IP packet, no lists, and nothing exempt. (Beside what a bucket
//! needs here, the stack has no room for looking up sockets.)

use aya_ebpf::programs::XdpContext;
use limiter_common::{counters::PLAIN, verdict::Reason};

use crate::bucket::Demand;
use crate::packet::Cursor;
use crate::parse::{Parsed, parse};
use crate::{clock, config, verdict};

/// Which figures are of this way.
pub const ROW: u32 = PLAIN;

/// What becomes of the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let source = match parse(&mut Cursor::new(context)) {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::NotIp | Parsed::Arp(_) => return Reason::NotIp,
        Parsed::Malformed => return verdict::in_force(Reason::Malformed),
    };
    let Some(limit) = config::limit(0) else {
        return Reason::Unlimited;
    };
    let key = limit.mask().key(0, &source, 0);
    let charged = Demand::new(0, limit, &key, clock::now(context), length).charge();
    let reason = verdict::in_force(charged.reason);
    if let Some(entry) = charged.entry {
        entry.count(reason, length);
    }
    #[cfg(feature = "log")]
    crate::log::packet(context, &source, reason, length);
    reason
}
