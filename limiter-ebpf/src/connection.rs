//! Finds packets of the host's established connections, which may be exempt from limits.

use core::mem::MaybeUninit;

use aya_ebpf::EbpfContext;
use limiter_common::policy::{self, Evaluation, PacketInfo, connection::Lookup};

use crate::{
    clock, constants,
    context::{Context, Raw},
    maps::LOOKUPS,
    packet::{self, Cursor},
    sockets,
};

/// True if one of the host's sockets is connected to the packet's sender. For the fast path, which reads no ports.
/// False for a packet that opens a connection.
#[inline(always)]
pub fn is_established(context: &Context) -> bool {
    unread_is_connected(context.as_ptr().cast()) != 0
}

/// True if one of the host's sockets is connected to the sender of a packet with these fields.
#[inline(always)]
pub fn is_connected(context: &Context, evaluation: &Evaluation) -> bool {
    read_is_connected(context.as_ptr().cast(), &raw const *evaluation) != 0
}

/// [`is_established`]. Parses the packet itself: the caller's stack has no room for the fields.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn unread_is_connected(context: *mut Raw) -> u32 {
    let context = Context::new(context);
    let mut packet = Cursor::new(&context);
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    let is_ip = policy::read(&mut packet, info);
    (is_ip && !info.opens_connection() && find(&context, info)).into()
}

/// [`is_connected`]. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_is_connected(context: *mut Raw, evaluation: *const Evaluation) -> u32 {
    let context = Context::new(context);
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    match unsafe { evaluation.as_ref() } {
        Some(evaluation) => find(&context, &evaluation.info).into(),
        None => 0,
    }
}

/// Looks the packet up among this CPU's last lookups, then among the host's sockets.
#[inline(always)]
fn find(context: &Context, info: &PacketInfo) -> bool {
    if !info.has_ports() {
        return false;
    }
    let mut lookup = Lookup::of(info, clock::jiffy());
    let tick = constants().tick;
    let place = LOOKUPS.get_ptr_mut(lookup.place());
    if tick != 0
        && let Some(known) = place
    {
        // SAFETY: this CPU's own map value.
        let known = unsafe { &*known };
        if lookup.is_known(known, tick) {
            return known.is_connected();
        }
    }
    lookup.found = sockets::find(context, info);
    if lookup.is_lasting()
        && let Some(known) = place
    {
        // SAFETY: this CPU's own map value, which nothing else uses while the program runs.
        unsafe { *known = lookup };
    }
    lookup.is_connected()
}
