//! Looking at the packet, as functions that the verifier checks by themselves in the program for processes without `CAP_PERFMON` (global
//! functions with the context, Linux 5.6; pointers to memory, 5.12): there it also follows the side of each branch that is not taken, and
//! would come to no end with all of them in one.

#[cfg(not(feature = "masked"))]
pub use super::gather;
#[cfg(feature = "masked")]
pub use masked::gather;

#[cfg(feature = "masked")]
mod masked {
    use aya_ebpf::{EbpfContext, bindings::xdp_md, programs::XdpContext};
    use limiter_common::verdict::Reason;

    use crate::{
        facts::Facts,
        limits::apart::{NO_REASON, reason},
        several,
    };

    /// [`several::gather`].
    #[inline(always)]
    pub fn gather(context: &XdpContext, facts: &mut Facts) -> Result<(), Reason> {
        match reason(packet_gather(context.as_ptr().cast(), &raw mut *facts)) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn packet_gather(context: *mut xdp_md, facts: *mut Facts) -> u32 {
        let context = XdpContext::new(context);
        // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
        let Some(facts) = (unsafe { facts.as_mut() }) else {
            return NO_REASON;
        };
        match several::gather(&context, facts) {
            Ok(()) => NO_REASON,
            Err(reason) => reason as u32,
        }
    }
}
