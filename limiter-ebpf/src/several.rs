//! The long way: lists, then all limits that match.

use core::mem::MaybeUninit;

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    counters::SEVERAL,
    rules::{ON_ALLOW, ON_DENY},
    verdict::Reason,
};

use crate::facts::Facts;
use crate::packet::Cursor;
use crate::parse::{Parsed, parse};
use crate::{clock, config, connection, limits, lists, transport, verdict, watch};

/// Which figures are of this way.
pub const ROW: u32 = SEVERAL;

/// What becomes of the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let mut place = MaybeUninit::uninit();
    let facts = Facts::begin(&mut place, length);
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
    if facts.source.family != 0 {
        crate::log::packet(context, &facts.source, reason, facts.length);
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
    if facts.control == 0 {
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
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => facts.source = *source,
        Parsed::Arp(source) => {
            facts.source = *source;
            facts.control = 1;
        }
        Parsed::NotIp => return Err(Reason::NotIp),
        Parsed::Malformed | Parsed::TooManyTags => return Err(verdict::unreadable(parsed)),
    }
    clock::begin(context);
    if config::transport() {
        match parsed {
            Parsed::Ipv4(_) => transport::read_ipv4(&mut packet, facts),
            Parsed::Ipv6(_) => transport::read_ipv6(&mut packet, facts),
            _ => return Ok(()),
        }
        if !config::control() {
            facts.control = 0;
        }
    }
    Ok(())
}
