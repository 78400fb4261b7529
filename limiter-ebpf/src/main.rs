//! The XDP program. The driver runs it on every received packet.
#![no_std]
#![no_main]

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use limiter_common::{
    abi::{CLOCK_PACKET, NEXT_FALLBACK, NEXT_FOREIGN},
    policy::verdict::Reason,
};
use limiter_ebpf::{
    clock,
    config::constants,
    counters, fast, full, handshake,
    maps::{NEXT, NEXT_FRAGS},
    packet,
};

/// Defines the programs. One per path, because the stack has no room for both paths in one program.
macro_rules! entries {
    ($($(#[$attribute:meta])+ $name:ident: $way:ident, $frags:literal, $next:ident;)+) => {$(
        $(#[$attribute])+
        pub fn $name(context: XdpContext) -> u32 {
            if clock::is_past_deadline() {
                let after = constants().after_deadline;
                // SAFETY: nothing here needs dropping.
                unsafe { $next.tail_call(&context, after) };
                // The tail call failed. A missing fallback was just replaced: the trial's program decides.
                if after != NEXT_FALLBACK {
                    return xdp_action::XDP_PASS;
                }
            }
            let length = packet::length::<$frags>(&context);
            let reason = $way::decide(&context, length);
            counters::count($way::ROW, reason, length);
            if constants().clock == CLOCK_PACKET {
                report(&context, reason);
            }
            if constants().chained != 0 && reason.passes() {
                // SAFETY: nothing here needs dropping.
                unsafe { $next.tail_call(&context, NEXT_FOREIGN) };
                // The other program is gone: the packet passes.
            }
            if reason.passes() {
                xdp_action::XDP_PASS
            } else if constants().proof != 0 && matches!(reason, Reason::Answered) {
                handshake::handshake_answer(context.ctx)
            } else {
                xdp_action::XDP_DROP
            }
        }
    )+};
}

entries! {
    /// The fast path, for kernels before 5.18 and drivers without multi-buffer packets.
    #[xdp]
    limiter: fast, false, NEXT;
    /// The fast path with multi-buffer packets (jumbo frames).
    #[xdp(frags)]
    limiter_frags: fast, true, NEXT_FRAGS;
    /// The full path, for kernels before 5.18 and drivers without multi-buffer packets.
    #[xdp]
    limits: full, false, NEXT;
    /// The full path with multi-buffer packets (jumbo frames).
    #[xdp(frags)]
    limits_frags: full, true, NEXT_FRAGS;
}

/// Writes the reason to the packet's stamp, for tests and replay.
#[inline(always)]
fn report(context: &XdpContext, reason: Reason) {
    if let Some(stamp) = packet::stamp(context) {
        // SAFETY: `stamp` has checked that it lies within the metadata.
        unsafe { (&raw mut (*stamp).reason).write(reason as u32) };
    }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
