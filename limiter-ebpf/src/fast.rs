//! The fast path: one limit that matches every IP packet, and no lists.

use limiter_common::{
    abi::counters::FAST_PATH,
    policy::{self, fast::End, parse, verdict::Reason},
};

use crate::{
    connection, constants,
    context::{self, Action, Context},
    counters::Finish,
    engine::Kernel,
    packet::Cursor,
    switches::Asked,
    watch,
};

/// The row of this path's counters.
pub const ROW: u32 = FAST_PATH;

pub use crate::log::none as log;

/// Decides about the packet, and ends with `finish`.
#[inline(always)]
pub fn decide(context: &Context, length: u64, finish: impl Finish) -> Action {
    let Some(mut kernel) = Kernel::new() else {
        return finish(context, length, Reason::Contended);
    };
    let parsed = parse(&mut Cursor::new(context));
    let source = match policy::fast::source(&kernel, parsed) {
        Ok(source) => source,
        Err(Reason::NotIp) if constants().passed == 0 => {
            return finish(context, length, Reason::NotIp);
        }
        Err(reason) => {
            let is_over = !reason.passes() || reason.would_drop();
            let why = if is_over { Reason::Malformed } else { reason };
            watch::emit(context, None, length, reason, || (why as u32, 0, 0));
            return finish(context, length, reason);
        }
    };
    kernel.begin(context);
    if constants().bans != 0 {
        kernel.switches = Some(Asked::look_up());
    }
    let is_connected = || connection::is_established(context);
    let prove = || context::prove(context, 0, Reason::NewSource as u32);
    let end = Shown {
        context,
        switches: kernel.switches,
        length,
        finish,
    };
    policy::fast::evaluate(&kernel, &source, length, is_connected, prove, end)
}

/// Shows the packet to who watches it, and finishes.
struct Shown<'a, F> {
    context: &'a Context,
    switches: Option<Asked>,
    length: u64,
    finish: F,
}

impl<F: Finish> End for Shown<'_, F> {
    type Output = Action;

    #[inline(always)]
    fn end(self, reason: Reason, why: Reason) -> Action {
        watch::emit(self.context, self.switches, self.length, reason, || {
            (why as u32, 0, 1)
        });
        (self.finish)(self.context, self.length, reason)
    }
}
