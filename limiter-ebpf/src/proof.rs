//! Proofs: the packet of a new source that a limit refuses gets an answer, and what the source sends back proves its
//! address. [`handshake`] has the proof of TCP, [`question`] those of UDP.

use aya_ebpf::{
    bindings::{xdp_action, xdp_md},
    programs::XdpContext,
};
use limiter_common::{abi::rules::FIRST, policy::verdict::Reason};

use crate::{clock, constants, handshake, question};

/// Lets the source of a packet, which the limit with this index refuses for the reason with the number `refused`,
/// prove its address if it is new. Returns [`PROVEN`](limiter_common::abi::rules::PROVEN),
/// [`ANSWERS`](limiter_common::abi::rules::ANSWERS) if the packet gets an answer, or [`FIRST`].
#[inline(always)]
pub fn prove(context: &XdpContext, index: u32, refused: u32) -> u32 {
    if constants().proof == 0 {
        return FIRST;
    }
    proof_prove(context.ctx, index, refused)
}

/// [`prove`]. A global function: two calls at its place, and the verifier would refuse the fast path.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn proof_prove(context: *mut xdp_md, index: u32, refused: u32) -> u32 {
    let is_new = refused == Reason::NewSource as u32;
    let context = &XdpContext::new(context);
    if question::is_used() {
        let proven = question::prove(context, index, is_new);
        if proven != FIRST {
            return proven;
        }
    }
    if constants().handshakes == 0 || !is_new {
        return FIRST;
    }
    handshake::prove(context, index)
}

/// Turns the packet, which is to get an answer, into this answer. Returns the XDP action.
#[inline(always)]
pub fn answer(context: &XdpContext) -> u32 {
    proof_answer(context.ctx)
}

/// [`answer`]. A global function: a larger one at the end of a program would be compiled into a static one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn proof_answer(context: *mut xdp_md) -> u32 {
    let Some(state) = clock::of_this_cpu() else {
        return xdp_action::XDP_DROP;
    };
    let context = XdpContext::new(context);
    // SAFETY: this CPU's own map value, and the only references to these fields.
    let (segment, datagram) = unsafe { (&mut (*state).segment, &(*state).datagram) };
    let sent = if question::is_used() && datagram.answer != 0 {
        question::answer(&context, segment, datagram)
    } else if constants().handshakes != 0 {
        handshake::answer(&context, segment)
    } else {
        None
    };
    sent.unwrap_or(xdp_action::XDP_DROP)
}
