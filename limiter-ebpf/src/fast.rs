//! The fast path: one limit that matches every IP packet, and no lists.

use limiter_common::{
    abi::counters::FAST_PATH,
    policy::{self, parse, verdict::Reason},
};

use crate::{
    connection, constants,
    context::{self, Context},
    engine::Kernel,
    packet::Cursor,
    watch,
};

/// The row of this path's counters.
pub const ROW: u32 = FAST_PATH;

pub use crate::log::none as log;

/// Decides about the packet.
#[inline(always)]
pub fn decide(context: &Context, length: u64) -> Reason {
    let Some(kernel) = Kernel::new() else {
        return Reason::Contended;
    };
    let parsed = parse(&mut Cursor::new(context));
    let source = match policy::fast::source(&kernel, parsed) {
        Ok(source) => source,
        Err(Reason::NotIp) if constants().passed == 0 => return Reason::NotIp,
        Err(reason) => {
            let is_over = !reason.passes() || reason.would_drop();
            let why = if is_over { Reason::Malformed } else { reason };
            watch::emit(context, length, reason, || (why as u32, 0, 0));
            return reason;
        }
    };
    kernel.begin(context);
    let is_connected = || connection::is_established(context);
    let prove = || context::prove(context, 0);
    let (reason, why) = policy::fast::evaluate(&kernel, &source, length, is_connected, prove);
    watch::emit(context, length, reason, || (why as u32, 0, 1));
    reason
}
