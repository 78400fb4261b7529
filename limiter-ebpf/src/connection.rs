//! Packets of the host's established connections, which are neither dropped nor charged where they are exempt.

use core::mem::MaybeUninit;

use aya_ebpf::{EbpfContext, bindings::xdp_md, programs::XdpContext};
use limiter_common::{policy::read, verdict::Reason};

use crate::facts::Facts;
use crate::packet::Cursor;
use crate::{config, sockets, verdict};

/// The limits' decision, unless the packet belongs to an established connection and such packets are exempt.
#[inline(always)]
pub fn unless_established(context: &XdpContext, decided: Reason) -> Reason {
    if !decided.passes() && config::established() && belongs(context, ANY_SEGMENT) {
        return Reason::Established;
    }
    verdict::in_force(decided)
}

/// Whether a packet that the limits are about to charge is exempt. The packet that opens a connection is charged without
/// a lookup.
#[inline(always)]
pub fn is_exempt(context: &XdpContext) -> bool {
    config::established() && belongs(context, NOT_OPENING)
}

/// Argument of [`is_established`]: look up every segment of TCP.
const ANY_SEGMENT: u32 = 0;
/// Argument of [`is_established`]: do not look up a SYN without ACK.
const NOT_OPENING: u32 = 1;

#[inline(always)]
fn belongs(context: &XdpContext, segments: u32) -> bool {
    is_established(context.as_ptr().cast(), segments) != 0
}

/// Returns 1 if one of the host's sockets is connected to the packet's sender, else 0. Parses the packet again, in a
/// function with a stack of its own, so that packets that need no lookup keep nothing for it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_established(context: *mut xdp_md, segments: u32) -> u32 {
    let context = XdpContext::new(context);
    let mut packet = Cursor::new(&context);
    let mut place = MaybeUninit::uninit();
    let info = &mut Facts::begin(&mut place, 0).info;
    let destination = read(&mut packet, info);
    if segments == NOT_OPENING && info.opens_connection() {
        return 0;
    }
    match destination {
        Some(destination) => sockets::hold(&context, info, destination).into(),
        None => 0,
    }
}
