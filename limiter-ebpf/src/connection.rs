//! Finds packets of the host's established connections, which may be exempt from limits.

use core::mem::MaybeUninit;

use aya_ebpf::EbpfContext;
use limiter_common::policy::{self, Evaluation, PacketInfo, connection::Lookup, related};

use crate::{
    clock, constants,
    context::{Context, Raw},
    maps::LOOKUPS,
    packet::{self, Cursor},
    sockets,
};

/// True if one of the host's sockets is connected to the packet's sender, or the packet is an error about a connection. For
/// the fast path, which reads no ports. False for a packet that opens a connection.
#[inline(always)]
pub fn is_established(context: &Context) -> bool {
    unread_is_connected(context.as_ptr().cast()) != 0
}

/// True if one of the host's sockets is connected to the sender of a packet with these fields.
#[inline(always)]
pub fn is_connected(context: &Context, evaluation: &Evaluation) -> bool {
    flow_is_connected(context.as_ptr().cast(), &raw const evaluation.info) != 0
}

/// [`is_established`]. Parses the packet itself: the caller's stack has no room for the fields.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn unread_is_connected(raw: *mut Raw) -> u32 {
    if constants().established == 0 {
        return 0;
    }
    let mut packet = Cursor::new(&Context::new(raw));
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    if !policy::read(&mut packet, info) || info.opens_connection() {
        return 0;
    }
    if info.may_be_error() && !related::read(&mut packet, info) {
        return 0;
    }
    flow_is_connected(raw, &raw const *info)
}

/// True if one of the host's sockets is connected to the sender of a packet with these fields. A separate function, for its
/// stack frame, and so that the verifier does not follow each form of a packet through it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn flow_is_connected(context: *mut Raw, info: *const PacketInfo) -> u32 {
    let context = Context::new(context);
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    match unsafe { info.as_ref() } {
        Some(info) => find(&context, info).into(),
        None => 0,
    }
}

/// True if the packet is an error about a packet that the host has sent to a connected peer. Then the error
/// [counts](Evaluation::count_as) as a packet of this connection.
#[inline(always)]
pub fn is_related(context: &Context, evaluation: &mut Evaluation) -> bool {
    quoted_is_connected(context.as_ptr().cast(), &raw mut *evaluation) != 0
}

/// [`is_related`]. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn quoted_is_connected(raw: *mut Raw, evaluation: *mut Evaluation) -> u32 {
    if constants().established == 0 {
        return 0;
    }
    let mut packet = Cursor::new(&Context::new(raw));
    let mut place = MaybeUninit::uninit();
    let quoted = packet::no_info(&mut place);
    let is_of_connection = policy::read(&mut packet, quoted)
        && related::read(&mut packet, quoted)
        && flow_is_connected(raw, &raw const *quoted) != 0;
    if !is_of_connection {
        return 0;
    }
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    if let Some(evaluation) = unsafe { evaluation.as_mut() } {
        evaluation.count_as(quoted);
    }
    1
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
