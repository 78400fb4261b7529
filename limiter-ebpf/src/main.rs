//! The program. The driver runs it on every received packet; with the feature `tc`, the network stack runs it on every
//! packet in one direction.
#![no_std]
#![no_main]

#[cfg(feature = "tc")]
use aya_ebpf::macros::classifier;
#[cfg(not(feature = "tc"))]
use aya_ebpf::macros::xdp;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use limiter_common::{abi::NEXT_FOREIGN, policy::verdict::Reason};
#[cfg(not(feature = "tc"))]
use limiter_ebpf::maps::NEXT_FRAGS;
use limiter_ebpf::{
    clock,
    constants::constants,
    context::{self, Action, Context, DROP, PASS},
    counters, fast, full,
    maps::NEXT,
    open,
};

/// Defines the programs. One per path, because the stack has no room for both paths in one program.
macro_rules! entries {
    ($($(#[$attribute:meta])+ $name:ident: $way:ident, $frags:literal, $next:ident;)+) => {$(
        $(#[$attribute])+
        // A function of its own would take a stack frame, and a call for each packet.
        #[inline(always)]
        pub fn $name(context: Context) -> Action {
            if clock::is_past_deadline() {
                let after = constants().after_deadline;
                $way::log::ended();
                // SAFETY: nothing here needs dropping.
                unsafe { $next.tail_call(&context, after) };
                // The tail call failed. A missing fallback was just replaced: the trial's program decides.
                if after == NEXT_FOREIGN {
                    return PASS;
                }
            }
            context::prepare(&context);
            let size = context::size::<$frags>(&context);
            return $way::decide(&context, size, finish);

            /// Counts the packet. Returns its verdict.
            #[inline(always)]
            fn finish(context: &Context, size: u64, reason: Reason) -> Action {
                counters::count($way::ROW, reason, size);
                context::report(context, reason as u32);
                let passes = reason.passes();
                if constants().follow_up != 0 {
                    $way::log::verdict(reason);
                    if constants().chained != 0 && passes {
                        // SAFETY: nothing here needs dropping.
                        unsafe { $next.tail_call(context, NEXT_FOREIGN) };
                        // The other program is gone: the packet passes.
                    }
                    if constants().proof != 0 && matches!(reason, Reason::Answered) {
                        return context::answer(context);
                    }
                }
                if passes { PASS } else { DROP }
            }
        }
    )+};
}

#[cfg(not(feature = "tc"))]
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

#[cfg(feature = "tc")]
entries! {
    /// The fast path in the network stack.
    #[classifier]
    limiter_tc: fast, false, NEXT;
    /// The full path in the network stack.
    #[classifier]
    limits_tc: full, false, NEXT;
}

/// Counts open connections: runs at each change of the state of a socket, if a limit bounds them.
#[raw_tracepoint(tracepoint = "inet_sock_set_state")]
pub fn connections(context: RawTracePointContext) -> i32 {
    open::changed(&context);
    0
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
