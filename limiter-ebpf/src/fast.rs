//! The fast path: one limit that matches every IP packet, and no lists.

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    abi::counters::FAST,
    policy::{self, parse, verdict::Reason},
};

use crate::{clock, config::Kernel, connection, packet::Cursor, watch};

/// The row of this path's counters.
pub const ROW: u32 = FAST;

/// Decides about the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let parsed = parse(&mut Cursor::new(context));
    let source = match policy::fast::source(&Kernel, parsed) {
        Ok(source) => source,
        Err(Reason::NotIp) => return Reason::NotIp,
        Err(reason) => {
            watch::emit(context, length, reason, Reason::Malformed as u32, 0, 0);
            return reason;
        }
    };
    clock::begin(context);
    let has_connection = |segments| connection::is_of_host(context, segments);
    let (reason, why) = policy::fast::evaluate(&Kernel, &source, length, has_connection);
    watch::emit(context, length, reason, why as u32, 0, 1);
    #[cfg(feature = "log")]
    log(context, length, reason);
    reason
}

/// Logs the packet. A separate function that parses the source again: the stack has no room to keep it (Linux 6.1).
#[cfg(feature = "log")]
#[inline(never)]
fn log(context: &XdpContext, length: u64, reason: Reason) {
    let mut pointer = context.ctx;
    // SAFETY: does nothing. It hides the pointer from LLVM, which would read the packet's bounds in the caller and pass
    // them as numbers.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) pointer, options(nostack)) };
    let context = XdpContext::new(pointer);
    if let Some(source) = parse(&mut Cursor::new(&context)).source() {
        crate::log::packet(&context, &source, reason, length);
    }
}
