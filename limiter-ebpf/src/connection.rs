//! What would be dropped, but belongs to a connection of the host's own sockets.

use core::mem::MaybeUninit;

use aya_ebpf::{EbpfContext, bindings::xdp_md, programs::XdpContext};
use limiter_common::verdict::Reason;

use crate::facts::Facts;
use crate::packet::Cursor;
use crate::parse::{self, Parsed, parse};
use crate::{config, sockets, transport, verdict};

/// What the limits have decided, unless the packet belongs to an established connection and such are
/// exempt.
#[inline(always)]
pub fn unless_established(context: &XdpContext, decided: Reason) -> Reason {
    if !decided.passes() && config::established() && is_established(context.as_ptr().cast()) != 0 {
        return Reason::Established;
    }
    verdict::in_force(decided)
}

/// 1 where it does. Reads the packet once more, because only those that are about to be dropped come
/// here; a function of its own, with a stack of its own.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_established(context: *mut xdp_md) -> u32 {
    let context = XdpContext::new(context);
    let mut packet = Cursor::new(&context);
    let mut place = MaybeUninit::uninit();
    let facts = Facts::begin(&mut place, 0);
    let destination = match parse(&mut packet) {
        Parsed::Ipv4(source) => {
            facts.source = source;
            let destination = parse::destination_ipv4(&packet);
            transport::read_ipv4(&mut packet, facts);
            destination
        }
        Parsed::Ipv6(source) => {
            facts.source = source;
            let destination = parse::destination_ipv6(&packet);
            transport::read_ipv6(&mut packet, facts);
            destination
        }
        _ => return 0,
    };
    match destination {
        Some(destination) => sockets::hold(&context, facts, destination).into(),
        None => 0,
    }
}
