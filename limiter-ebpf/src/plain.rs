//! The short way: one limit that holds every IP packet, and no lists.

use aya_ebpf::programs::XdpContext;
use limiter_common::{counters::PLAIN, verdict::Reason};

use crate::bucket::Demand;
use crate::packet::Cursor;
use crate::parse::{Parsed, parse};
use crate::{clock, config, connection, verdict};

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
    let reason = connection::unless_established(context, charged.reason);
    if let Some(entry) = charged.entry {
        entry.count(reason, length);
    }
    #[cfg(feature = "log")]
    crate::log::packet(context, &source, reason, length);
    reason
}
