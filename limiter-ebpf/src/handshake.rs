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
    abi::{
        log::Logged,
        routes::{ANSWERED, NO_ONE, OF_HOST, is_link_local, kind_of},
        rules::{ANSWERS, FIRST, PROVEN, row},
    },
    policy::{
        self, Bytes, Parsed,
        handshake::{Segment, TCP, WORDS},
    },
    table::key::{Address, IPV6},
};
use network_types::eth::EthHdr;

use crate::{clock, constants, log, new_sources, packet::Cursor, sockets::CURRENT_NAMESPACE};

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

/// Results of the kernel's lookup of a route (include/uapi/linux/bpf.h).
const FOUND: i64 = 0;
const NOT_FORWARDED: i64 = 4;
const NO_FORWARDING: i64 = 5;
const NO_NEIGHBOUR: i64 = 7;

/// True if the host itself gets the packet, and would answer its sender. A listener on any address would be found for
/// other packets too.
#[inline(always)]
fn is_for_host(context: &XdpContext, segment: &Segment) -> bool {
    let Some(&[a, b, c, d, e, f, first, ..]) = Cursor::new(context).peek::<12>() else {
        return false;
    };
    // Not bridged: the frame has the interface's address. The answer's has the sender's, which must not be a group's.
    if u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]) != constants().mac || first & 1 != 0 {
        return false;
    }
    let (sender, receiver) = (segment.address(true), segment.address(false));
    handshake_kind(receiver.words[0], receiver.words[1], receiver.family) == OF_HOST
        // An address that the host has lost is seen here if it forwards.
        && matches!(route(context, &receiver, &sender).0, NOT_FORWARDED | NO_FORWARDING)
        && has_way_back(context, segment, &sender, &receiver)
}

/// True if the host's stack accepts the sender, and has a route to it. The kernel is asked if it forwards.
#[inline(always)]
fn has_way_back(
    context: &XdpContext,
    segment: &Segment,
    sender: &Address,
    receiver: &Address,
) -> bool {
    const ETHERNET: u32 = EthHdr::LEN as u32;
    let way_back = constants().way_back as u32;
    let is_filtered = way_back != 0 && segment.ipv6 == 0;
    let kind = handshake_kind(sender.words[0], sender.words[1], sender.family);
    // Behind a VLAN tag, another interface receives the packet.
    if kind == OF_HOST || kind == NO_ONE || is_filtered && segment.offset != ETHERNET {
        return false;
    }
    match route(context, sender, receiver) {
        (FOUND | NO_NEIGHBOUR, interface) => !is_filtered || interface == way_back,
        (NO_FORWARDING, _) => kind == ANSWERED,
        // The kernel looks up no route for these.
        (NOT_FORWARDED, _) => kind == ANSWERED && is_link_local(sender),
        _ => false,
    }
}

/// The kind of an address among the host's routes. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn handshake_kind(first: u64, second: u64, family: u32) -> u32 {
    kind_of(&constants().routes, &[first, second], family)
}

/// Looks up the kernel's route to an address, for packets from another. Returns the result, and the interface that the
/// route leads through if it was found. The kernel looks up nothing for an interface that does not forward: then it is
/// asked for the loopback, which an administrator may let forward without effect on other packets.
#[inline(always)]
fn route(context: &XdpContext, receiver: &Address, sender: &Address) -> (i64, u32) {
    /// `LOOPBACK_IFINDEX` (include/net/flow.h).
    const LOOPBACK: u32 = 1;
    // SAFETY: the context is the program's.
    let interface = unsafe { (*context.ctx).ingress_ifindex };
    let mut result = (NO_FORWARDING, 0);
    for interface in [interface, LOOPBACK] {
        // `struct bpf_fib_lookup`: family and protocol, interface in the third word, addresses in the fifth word and the
        // ninth.
        let mut route = [0_u64; 8];
        let family = if receiver.family == IPV6 { 10 } else { 2 };
        route[0] = u64::from_ne_bytes([family, 6, 0, 0, 0, 0, 0, 0]);
        let [a, b, c, d] = interface.to_ne_bytes();
        route[1] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        [route[2], route[3]] = sender.words;
        [route[4], route[5]] = receiver.words;
        let (place, size) = (route.as_mut_ptr(), size_of_val(&route) as i32);
        // SAFETY: the context is the program's, and the structure has 64 bytes.
        result = unsafe {
            let found = bpf_fib_lookup(context.as_ptr(), place.cast(), size, 0);
            (found, place.add(1).cast::<u32>().read_volatile())
        };
        if result.0 != NO_FORWARDING {
            break;
        }
    }
    result
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
        let [destination, source] = addresses.read();
        addresses.write([source, destination]);
        bpf_xdp_store_bytes(context.ctx, segment.offset, ip(segment).cast(), length)
    };
    (error == 0).then_some(xdp_action::XDP_TX)
}
