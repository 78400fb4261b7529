//! Handshake proof: answers SYNs of new sources by SYN cookies of the kernel, and checks the cookies that come back.
//!
//! The exported functions have stack frames of their own, because the limits need the whole stack.

use core::hint::black_box;

use aya_ebpf::{
    EbpfContext,
    bindings::{xdp_action, xdp_md},
    helpers::generated::{
        bpf_fib_lookup, bpf_sk_release, bpf_skc_lookup_tcp, bpf_tcp_check_syncookie,
        bpf_tcp_gen_syncookie, bpf_xdp_load_bytes, bpf_xdp_store_bytes,
    },
    programs::XdpContext,
};
use limiter_common::{
    abi::rules::{ANSWERS, FIRST, PROVEN, row},
    policy::{
        self, Bytes, Parsed,
        handshake::{Segment, TCP, WORDS},
    },
};

use crate::{clock, constants, new_sources, packet::Cursor, sockets::CURRENT_NAMESPACE};

/// State of a listening socket (include/net/tcp_states.h).
const LISTEN: u32 = 10;

/// Lets the new source of a packet, which the limit with this index refuses, prove its address. Returns [`PROVEN`],
/// [`ANSWERS`] if the SYN gets an answer, or [`FIRST`].
#[inline(always)]
pub fn prove(context: &XdpContext, index: u32) -> u32 {
    if constants().proof == 0 {
        return FIRST;
    }
    handshake_prove(context.as_ptr().cast(), index)
}

/// [`prove`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn handshake_prove(context: *mut xdp_md, index: u32) -> u32 {
    if constants().proof == 0 {
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
    let mut packet = Cursor::new(context);
    segment.ipv6 = match policy::parse(&mut packet) {
        Parsed::Ipv4(_) => 0,
        Parsed::Ipv6(_) => 1,
        _ => return None,
    };
    segment.offset = (packet.header::<u32>()? as usize).wrapping_sub(context.data()) as u32;
    load(context, segment, 20)?;
    let (is_syn, row, mut length) = (segment.is_syn()?, row(slot, ANSWERS), 20);
    if is_syn {
        length = segment.tcp_length();
        let is_free = !new_sources::is_exhausted(row)
            && new_sources::reserve(row, clock::present().unwrap_or(0));
        if !is_free || !is_for_host(context, segment) {
            return None;
        }
        load(context, segment, length)?;
    }
    let cookie = of_listener(context, segment, is_syn, bounded(length, 60)?);
    if cookie < 0 {
        return None;
    }
    if !is_syn {
        return Some(PROVEN);
    }
    segment.cookie = cookie as u64;
    new_sources::take(row);
    Some(ANSWERS)
}

/// Copies the IP header and `length` bytes of the TCP header.
#[inline(always)]
fn load(context: &XdpContext, segment: &mut Segment, length: u32) -> Option<()> {
    let all = bounded(segment.ip_length() + length, 4 * WORDS as u32)?;
    // SAFETY: the context is the program's, and the headers have room.
    let error = unsafe { bpf_xdp_load_bytes(context.ctx, segment.offset, ip(segment).cast(), all) };
    (error == 0).then_some(())
}

/// The IP header.
#[inline(always)]
fn ip(segment: &mut Segment) -> *mut u32 {
    let words = segment.words.as_mut_ptr();
    // SAFETY: within the words.
    unsafe { words.add(TCP).byte_sub(segment.ip_length() as usize) }
}

/// `length` if it is 1 to `most`, hidden from the compiler, which would otherwise check another number than the helper
/// gets. Less one, because the verifier of Linux 6.1 does not conclude from "not 0" that it is at least 1.
#[inline(always)]
fn bounded(length: u32, most: u32) -> Option<u32> {
    let less = black_box(length.wrapping_sub(1));
    (less < most).then(|| less + 1)
}

/// Whether the host itself gets the packet. It does not bridge it, because the frame has its address, and it does not
/// forward it. A listener on any address would be found for such packets too.
#[inline(always)]
fn is_for_host(context: &XdpContext, segment: &Segment) -> bool {
    /// Results for packets that are not forwarded, or not on this interface (include/uapi/linux/bpf.h).
    const NOT_FORWARDED: core::ops::RangeInclusive<i64> = 4..=5;
    let Some(&[a, b, c, d, e, f]) = Cursor::new(context).peek() else {
        return false;
    };
    if u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]) != constants().mac {
        return false;
    }
    // `struct bpf_fib_lookup`: family and protocol, interface in the third word, addresses from the fifth and ninth on.
    let mut route = [0_u32; 16];
    // SAFETY: the context is the program's.
    route[2] = unsafe { (*context.ctx).ingress_ifindex };
    if segment.ipv6 != 0 {
        route[0] = u32::from_ne_bytes([10, 6, 0, 0]);
        route[4..12].copy_from_slice(&segment.words[2..10]);
    } else {
        route[0] = u32::from_ne_bytes([2, 6, 0, 0]);
        (route[4], route[8]) = (segment.words[8], segment.words[9]);
    }
    let (place, size) = (route.as_mut_ptr().cast(), size_of_val(&route) as i32);
    // SAFETY: the context is the program's, and the structure has 64 bytes.
    let found = unsafe { bpf_fib_lookup(context.as_ptr(), place, size, 0) };
    NOT_FORWARDED.contains(&found)
}

/// The cookie of the listener that gets a SYN, or 0 if it has sent the one that the segment returns; negative if not.
#[inline(always)]
fn of_listener(context: &XdpContext, segment: &mut Segment, is_syn: bool, length: u32) -> i64 {
    let (ip, ip_length) = (ip(segment).cast(), segment.ip_length());
    let tcp = segment.words.as_mut_ptr().wrapping_add(TCP);
    // The addresses and behind them the ports, as in `struct bpf_sock_tuple`.
    let bytes = if segment.ipv6 != 0 { 32 } else { 8 };
    let tuple = tcp.wrapping_byte_sub(bytes).cast();
    // SAFETY: the context is the program's, the pointers are to the segment's headers, and the socket is released.
    unsafe {
        let (netns, size) = (CURRENT_NAMESPACE, bytes as u32 + 4);
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

/// Turns the packet, which [`prove`] has decided to answer, into the answer. Returns the XDP action.
#[inline(always)]
pub fn answer(context: &XdpContext) -> u32 {
    handshake_answer(context.ctx)
}

/// [`answer`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn handshake_answer(context: *mut xdp_md) -> u32 {
    let context = XdpContext::new(context);
    match clock::of_this_cpu() {
        // SAFETY: this CPU's own map value, and the only reference to this field.
        Some(state) if constants().proof != 0 => write(&context, unsafe { &mut (*state).segment }),
        _ => None,
    }
    .unwrap_or(xdp_action::XDP_DROP)
}

#[inline(always)]
fn write(context: &XdpContext, segment: &mut Segment) -> Option<u32> {
    let length = segment.ip_length() + segment.tcp_length();
    let length = bounded(length, 4 * WORDS as u32)?;
    segment.answer();
    let addresses = Cursor::new(context).header::<[[u16; 3]; 2]>()?;
    // SAFETY: `header` has checked that the bytes lie within the packet, which begins at an even address. The context is
    // the program's, and the headers have `length` bytes.
    let error = unsafe {
        let [to, from] = addresses.read();
        addresses.write([from, to]);
        bpf_xdp_store_bytes(context.ctx, segment.offset, ip(segment).cast(), length)
    };
    (error == 0).then_some(xdp_action::XDP_TX)
}
