//! The XDP program, which a driver runs on every packet that it has received.
#![no_std]
#![no_main]

use aya_ebpf::{bindings::xdp_action, macros::xdp, programs::XdpContext};
use limiter_common::{
    abi::{CLOCK_PACKET, NEXT_FALLBACK, NEXT_FOREIGN},
    policy::verdict::Reason,
};
use limiter_ebpf::{
    clock, config, counters, fast, full,
    maps::{NEXT, NEXT_FRAGS},
    packet, verdict,
};

/// The entries: each is loaded by itself, because the stack has no room for both ways in one program.
macro_rules! entries {
    ($($(#[$attribute:meta])+ $name:ident: $way:ident, $frags:literal, $next:ident;)+) => {$(
        $(#[$attribute])+
        pub fn $name(context: XdpContext) -> u32 {
            if clock::is_past_deadline() {
                let after = config::after_deadline();
                // SAFETY: nothing here needs dropping.
                unsafe { $next.tail_call(&context, after) };
                // A fallback that is not there has been replaced this moment: the packet is still the trial's.
                if after != NEXT_FALLBACK {
                    return xdp_action::XDP_PASS;
                }
            }
            let length = packet::length::<$frags>(&context);
            let reason = $way::decide(&context, length);
            counters::count($way::ROW, reason, length);
            if config::clock() == CLOCK_PACKET {
                report(&context, reason);
            }
            if config::chained() && reason.passes() {
                // SAFETY: as above.
                unsafe { $next.tail_call(&context, NEXT_FOREIGN) };
                // No program is there any more: the packet passes.
            }
            verdict::action(reason)
        }
    )+};
}

entries! {
    /// One limit that holds every packet. For kernels before 5.18, and for drivers that give a packet
    /// in one buffer only.
    #[xdp]
    limiter: fast, false, NEXT;
    /// `limiter` for kernels that know multi-buffer packets: jumbo frames.
    #[xdp(frags)]
    limiter_frags: fast, true, NEXT_FRAGS;
    /// Several limits, or lists.
    #[xdp]
    limits: full, false, NEXT;
    /// `limits` for kernels that know multi-buffer packets: jumbo frames.
    #[xdp(frags)]
    limits_frags: full, true, NEXT_FRAGS;
}

/// Tells a test or a replay why.
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
