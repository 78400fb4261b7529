//! Decides whether the host's own stack would answer a packet.
//!
//! The exported function has a stack frame of its own, because the limits need the whole stack.

use aya_ebpf::{EbpfContext, helpers::generated::bpf_fib_lookup, programs::XdpContext};
use limiter_common::{
    abi::routes::{ANSWERED, NO_ONE, OF_HOST, is_link_local, kind_of},
    policy::{Bytes, handshake::Segment},
    table::key::{Address, IPV6},
};
use network_types::eth::EthHdr;

use crate::{constants, packet::Cursor};

/// Results of the kernel's lookup of a route (include/uapi/linux/bpf.h).
const FOUND: i64 = 0;
const NOT_FORWARDED: i64 = 4;
const NO_FORWARDING: i64 = 5;
const NO_NEIGHBOUR: i64 = 7;

/// True if the host itself gets the packet, and would answer its sender. A listener on any address would be found for
/// other packets too.
#[inline(always)]
pub fn is_for_host(context: &XdpContext, segment: &Segment) -> bool {
    let Some(&[a, b, c, d, e, f, first, ..]) = Cursor::new(context).peek::<12>() else {
        return false;
    };
    // Not bridged: the frame has the interface's address. The answer's has the sender's, which must not be a group's.
    if u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]) != constants().mac || first & 1 != 0 {
        return false;
    }
    let (sender, receiver) = (segment.address(true), segment.address(false));
    host_kind(receiver.words[0], receiver.words[1], receiver.family) == OF_HOST
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
    let kind = host_kind(sender.words[0], sender.words[1], sender.family);
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
extern "C" fn host_kind(first: u64, second: u64, family: u32) -> u32 {
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
