//! Proofs over UDP: answers questions of new sources, and checks what comes back.
//!
//! The exported functions have stack frames of their own, because the limits need the whole stack.

use core::{hint::black_box, ptr};

use aya_ebpf::{
    EbpfContext,
    bindings::xdp_md,
    helpers::generated::{
        bpf_csum_diff, bpf_sk_lookup_udp, bpf_sk_release, bpf_xdp_adjust_tail, bpf_xdp_load_bytes,
    },
    programs::XdpContext,
};
use limiter_common::{
    abi::{
        log::Logged,
        rules::{ANSWERS, FIRST, PROVEN, row},
    },
    policy::{
        a2s,
        datagram::{Datagram, HEAD, HEADER, Head, MESSAGE, MESSAGE_MAX, sum_of_answer},
        dns,
        handshake::Segment,
    },
};

use crate::{
    answering::{bounded, find, load, may_answer, send, tuple},
    clock, constants, lent, log, new_sources,
    sockets::CURRENT_NAMESPACE,
};

/// A protocol's judgement of a message.
enum Judged {
    /// It proves the address of its source.
    Proves,
    /// It gets an answer with this head, of so many bytes.
    Gets(Head, u32),
}

/// True if limits have proofs over UDP.
#[inline(always)]
pub fn is_used() -> bool {
    constants().truncates | constants().challenges != 0
}

/// See [`crate::proof::prove`]. `is_new`: the source is new; otherwise it is over the limit.
#[inline(always)]
pub fn prove(context: &XdpContext, index: u32, is_new: bool) -> u32 {
    let context = context.as_ptr().cast();
    match question_judge(context, index, is_new.into()) {
        ANSWERS => question_prepare(context, index),
        judged => judged,
    }
}

/// Judges a question: [`ANSWERS`] if it may get an answer, whose head and length are with the question then.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn question_judge(context: *mut xdp_md, index: u32, is_new: u32) -> u32 {
    if !is_used() {
        return FIRST;
    }
    let Some(slip) = constants().slips.get(index as usize) else {
        return FIRST;
    };
    let slip = *slip;
    let Some(state) = clock::of_this_cpu() else {
        return FIRST;
    };
    // SAFETY: this CPU's own map value, and the only reference to these fields.
    let (segment, datagram) = unsafe { (&mut (*state).segment, &mut (*state).datagram) };
    datagram.answer = 0;
    let context = XdpContext::new(context);
    let asked = read(&context, segment, datagram);
    let judged = asked.and_then(|()| judge(segment, datagram, index, slip, is_new != 0));
    match judged {
        Some(Judged::Proves) => {
            log::note(Logged::Proven);
            PROVEN
        }
        Some(Judged::Gets(head, length)) => {
            datagram.answer = length;
            segment.words[MESSAGE..MESSAGE + HEAD].copy_from_slice(&head);
            ANSWERS
        }
        None => FIRST,
    }
}

/// Reads the headers and the message, which lies in the frame's first buffer.
#[inline(always)]
fn read(context: &XdpContext, segment: &mut Segment, datagram: &mut Datagram) -> Option<()> {
    find(context, segment)?;
    load(context, segment, HEADER)?;
    let begin = segment.offset + segment.ip_length() + HEADER;
    let length = segment.message_length()?;
    if context.data_end().wrapping_sub(context.data()) < (begin + length) as usize {
        return None;
    }
    datagram.length = length;
    let bytes = datagram.bytes.as_mut_ptr();
    // Hidden, so that the compiler keeps the mask: the verifier of Linux 6.1 needs it here.
    let last = black_box(length.wrapping_sub(1)) as usize & (MESSAGE_MAX - 4);
    // SAFETY: a word within the bytes: the last one of the message, if it has room.
    unsafe { bytes.add(last).cast::<u32>().write(0) };
    let length = bounded(length, MESSAGE_MAX as u32)?;
    // SAFETY: the bytes have room for the message; the context is the program's.
    let error = unsafe { bpf_xdp_load_bytes(context.ctx, begin, bytes.cast(), length) };
    (error == 0).then_some(())
}

/// Asks the protocols that the limit answers.
#[inline(always)]
fn judge(
    segment: &Segment,
    datagram: &mut Datagram,
    index: u32,
    slip: u32,
    is_new: bool,
) -> Option<Judged> {
    if constants().truncates >> index & 1 != 0
        && segment.destination_port() == dns::PORT
        && dns_question(&raw const *datagram) != 0
    {
        let answers = is_turn(datagram, slip);
        return answers.then(|| Judged::Gets(dns::head(&first_words(datagram)), datagram.length));
    }
    if constants().challenges >> index & 1 == 0 || !is_new {
        return None;
    }
    let returned = a2s::returned(datagram, datagram.length)?;
    let given = |time| query_challenge(&raw const *segment, time);
    let now = clock::recent();
    if a2s::is_valid(now, returned, given) {
        return Some(Judged::Proves);
    }
    Some(Judged::Gets(a2s::head(given(now)), a2s::LENGTH))
}

/// [`a2s::challenge`] for the source of a segment. A global function: its caller's stack has no room for the hash (Linux
/// 6.1).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn query_challenge(segment: *const Segment, time: u64) -> u32 {
    lent!(segment);
    a2s::challenge(&constants().seed, &segment.address(true), time)
}

/// [`dns::is_question`]: 1 or 0. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn dns_question(datagram: *const Datagram) -> u32 {
    lent!(datagram);
    dns::is_question(datagram, datagram.length).into()
}

/// True for one of `slip` questions.
#[inline(always)]
fn is_turn(datagram: &mut Datagram, slip: u32) -> bool {
    datagram.passed_over += 1;
    let is_turn = datagram.passed_over >= slip;
    if is_turn {
        datagram.passed_over = 0;
    }
    is_turn
}

#[inline(always)]
fn first_words(datagram: &Datagram) -> Head {
    // SAFETY: within the bytes, which are aligned.
    unsafe { datagram.bytes.as_ptr().cast::<Head>().read() }
}

/// Prepares the answer: [`ANSWERS`] if there is one left and the host would answer. A function of its own, because the
/// stack has no room for both behind the lease that it may take (Linux 6.1).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn question_prepare(context: *mut xdp_md, index: u32) -> u32 {
    let (Some(limit), Some(state)) = (constants().limit(index), clock::of_this_cpu()) else {
        return FIRST;
    };
    let row = row(limit.slot, ANSWERS);
    // SAFETY: this CPU's own map value, and the only reference to these fields.
    let (segment, datagram) = unsafe { (&mut (*state).segment, &mut (*state).datagram) };
    if prepare(&XdpContext::new(context), segment, datagram, row).is_some() {
        ANSWERS
    } else {
        datagram.answer = 0;
        FIRST
    }
}

#[inline(always)]
fn prepare(
    context: &XdpContext,
    segment: &mut Segment,
    datagram: &mut Datagram,
    row: u32,
) -> Option<()> {
    if !is_used() || !may_answer(context, segment, row) {
        return None;
    }
    let sum = sum_of(datagram)?;
    if !segment.has_right_sums(sum) || !has_socket(context, segment) {
        return None;
    }
    let is_whole = datagram.answer == datagram.length;
    let head: &Head = segment.words[MESSAGE..].first_chunk()?;
    datagram.sum = sum_of_answer(sum, &first_words(datagram), head, is_whole);
    new_sources::take(row);
    Some(())
}

/// The sum of the message's words.
#[inline(always)]
fn sum_of(datagram: &mut Datagram) -> Option<u64> {
    let words = bounded(datagram.length.div_ceil(4), MESSAGE_MAX as u32 / 4)?;
    let bytes = datagram.bytes.as_mut_ptr().cast();
    // SAFETY: the message lies within the bytes.
    let sum = unsafe { bpf_csum_diff(ptr::null_mut(), 0, bytes, words * 4, 0) };
    u64::try_from(sum).ok()
}

/// True if a socket of the host gets the datagram.
#[inline(always)]
fn has_socket(context: &XdpContext, segment: &mut Segment) -> bool {
    let (tuple, size) = tuple(segment);
    // SAFETY: the context is the program's, `size` is the length of the tuple, and the socket is released.
    unsafe {
        let socket = bpf_sk_lookup_udp(context.as_ptr(), tuple, size, CURRENT_NAMESPACE, 0);
        if socket.is_null() {
            return false;
        }
        bpf_sk_release(socket.cast());
    }
    true
}

/// Turns the question, which [`prove`] has decided to answer, into the answer, and sends it. Returns the XDP action.
#[inline(always)]
pub fn answer(context: &XdpContext, segment: &mut Segment, datagram: &Datagram) -> Option<u32> {
    let (asked, answer) = (datagram.length, datagram.answer);
    segment.answer_message(datagram);
    let action = send(context, segment, HEADER + answer.min(4 * HEAD as u32))?;
    if asked != answer {
        // If the driver cannot, the rest stays behind the packet.
        // SAFETY: the context is the program's.
        unsafe { bpf_xdp_adjust_tail(context.ctx, answer.cast_signed() - asked.cast_signed()) };
    }
    Some(action)
}
