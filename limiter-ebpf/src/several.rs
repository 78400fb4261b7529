//! The long way: lists, then all limits that match.

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    counters::SEVERAL,
    policy::{Parsed, parse},
    rules::{ON_ALLOW, ON_DENY},
    verdict::Reason,
};

use crate::facts::Facts;
use crate::maps::PACKET;
use crate::packet::Cursor;
use crate::{clock, config, connection, limits, lists, verdict, watch};

/// Which figures are of this way.
pub const ROW: u32 = SEVERAL;

/// What becomes of the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let Some(place) = PACKET.get_ptr_mut(0) else {
        return Reason::Contended;
    };
    // SAFETY: this CPU's own map value, which nothing else uses while the program runs.
    let facts = Facts::begin(unsafe { &mut *place.cast() }, length);
    let reason = judge(context, facts);
    let (limit, limits) = limits::over(facts);
    watch::tell(
        context,
        facts.length,
        reason,
        why(reason, facts),
        limit,
        limits,
    );
    // What has no source is told by the counters alone.
    #[cfg(feature = "log")]
    if facts.info.source.family != 0 {
        crate::log::packet(context, &facts.info.source, reason, facts.length);
    }
    reason
}

/// Number of the reason for which the packet is dropped, or would be but for shadow.
#[inline(always)]
fn why(reason: Reason, facts: &Facts) -> u32 {
    match reason {
        Reason::WouldDrop if facts.lists & ON_DENY != 0 => Reason::Deny as u32,
        Reason::WouldDrop => facts.refused.into(),
        Reason::MalformedWouldDrop => Reason::Malformed as u32,
        reason => reason as u32,
    }
}

#[inline(always)]
fn judge(context: &XdpContext, facts: &mut Facts) -> Reason {
    if let Err(reason) = gather(context, facts) {
        return verdict::in_force(reason);
    }
    if facts.info.control == 0 {
        facts.lists = lists::look_up(facts);
        if facts.lists & ON_DENY != 0 {
            return verdict::in_force(Reason::Deny);
        }
        if facts.lists & ON_ALLOW != 0 {
            return Reason::Allowed;
        }
    }
    limits::classify(facts);
    let decided = limits::decide(context, facts);
    let reason = connection::unless_established(context, decided);
    if !decided.passes() && !matches!(reason, Reason::Established) {
        limits::count_refused(facts, reason);
    }
    reason
}

/// Finds out what is to be known of a packet, or why no limit holds it.
#[inline(always)]
pub fn gather(context: &XdpContext, facts: &mut Facts) -> Result<(), Reason> {
    let mut packet = Cursor::new(context);
    let parsed = parse(&mut packet);
    match &parsed {
        Parsed::Ipv4(_) | Parsed::Ipv6(_) => {}
        Parsed::Arp(_) if config::control() => {}
        Parsed::NotIp | Parsed::Arp(_) => return Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => return Err(verdict::unreadable(parsed)),
    }
    clock::begin(context);
    parsed.read(&mut packet, config::transport(), &mut facts.info);
    if !config::control() {
        facts.info.control = 0;
    }
    Ok(())
}
