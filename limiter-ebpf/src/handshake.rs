//! Proof by a TCP handshake: answers SYNs of new sources by SYN cookies of the kernel, and checks the cookies that come
//! back.
//!
//! The exported function has a stack frame of its own, because the limits need the whole stack.

use aya_ebpf::{
    EbpfContext,
    bindings::xdp_md,
    helpers::generated::{
        bpf_sk_release, bpf_skc_lookup_tcp, bpf_tcp_check_syncookie, bpf_tcp_gen_syncookie,
    },
    programs::XdpContext,
};
use limiter_common::{
    abi::{
        log::Logged,
        rules::{ANSWERS, FIRST, PROVEN, row},
    },
    policy::handshake::{Segment, TCP},
};

use crate::{
    answering::{bounded, find, ip, load, may_answer, send, tuple},
    clock, constants, log, new_sources,
    sockets::CURRENT_NAMESPACE,
};

/// State of a listening socket (include/net/tcp_states.h).
const LISTEN: u32 = 10;

/// See [`crate::proof::prove`].
#[inline(always)]
pub fn prove(context: &XdpContext, index: u32) -> u32 {
    handshake_prove(context.as_ptr().cast(), index)
}

/// [`prove`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn handshake_prove(context: *mut xdp_md, index: u32) -> u32 {
    if constants().handshakes >> index & 1 == 0 {
        return FIRST;
    }
    let (Some(state), Some(limit)) = (clock::of_this_cpu(), constants().limit(index)) else {
        return FIRST;
    };
    // SAFETY: this CPU's own map value, and the only reference to this field.
    let segment = unsafe { &mut (*state).segment };
    ask(&XdpContext::new(context), segment, limit.slot).unwrap_or(FIRST)
}

/// Asks the listener for a cookie, or about one.
#[inline(always)]
fn ask(context: &XdpContext, segment: &mut Segment, slot: u32) -> Option<u32> {
    find(context, segment)?;
    load(context, segment, 20)?;
    let (is_syn, row, mut length) = (segment.is_syn()?, row(slot, ANSWERS), 20);
    if is_syn {
        length = segment.tcp_length();
        if !may_answer(context, segment, row) {
            return None;
        }
        segment.words[TCP..].fill(0);
        load(context, segment, length)?;
        if !segment.has_right_checksums() {
            return None;
        }
    }
    let cookie = of_listener(context, segment, is_syn, bounded(length, 60)?);
    if cookie < 0 {
        return None;
    }
    if !is_syn {
        log::note(Logged::Proven);
        return Some(PROVEN);
    }
    segment.cookie = cookie as u64;
    new_sources::take(row);
    Some(ANSWERS)
}

/// The cookie of the listener that gets a SYN, or 0 if it has sent the one that the segment returns; negative if not.
#[inline(always)]
fn of_listener(context: &XdpContext, segment: &mut Segment, is_syn: bool, length: u32) -> i64 {
    let (ip, ip_length) = (ip(segment).cast(), segment.ip_length());
    let tcp = segment.words.as_mut_ptr().wrapping_add(TCP);
    let (tuple, size) = tuple(segment);
    // SAFETY: the context is the program's, the pointers are to the segment's headers, and the socket is released.
    unsafe {
        let netns = CURRENT_NAMESPACE;
        let socket = bpf_skc_lookup_tcp(context.as_ptr(), tuple, size, netns, 0);
        if socket.is_null() {
            return -1;
        }
        let mut cookie = -1;
        if (&raw const (*socket).state).read_volatile() == LISTEN {
            let (socket, tcp) = (socket.cast(), tcp.cast());
            cookie = if is_syn {
                bpf_tcp_gen_syncookie(socket, ip, ip_length, tcp, length)
            } else {
                bpf_tcp_check_syncookie(socket, ip, ip_length, tcp, length)
            };
        }
        bpf_sk_release(socket.cast());
        cookie
    }
}

/// Turns the SYN, which [`prove`] has decided to answer, into the answer, and sends it. Returns the XDP action.
#[inline(always)]
pub fn answer(context: &XdpContext, segment: &mut Segment) -> Option<u32> {
    let length = segment.tcp_length();
    segment.answer();
    send(context, segment, length)
}
