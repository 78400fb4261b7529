//! Looks a packet up among the host's sockets.

use aya_ebpf::{
    EbpfContext,
    bindings::{bpf_sock, bpf_sock_tuple},
    helpers::generated::{bpf_sk_lookup_tcp, bpf_sk_lookup_udp, bpf_sk_release},
};
use limiter_common::{
    policy::{
        PacketInfo,
        connection::{CONNECTED, NONE, UNCONNECTED},
        protocols::{TCP, UDP},
    },
    table::key::{IPV4, Words},
};

use crate::{constants, context::Context};

/// The network namespace of the interface (`BPF_F_CURRENT_NETNS`, include/uapi/linux/bpf.h: -1 as a signed 32-bit
/// number).
pub const CURRENT_NAMESPACE: u64 = u64::MAX;

/// States of a socket with a known peer (include/net/tcp_states.h): from the SYN that the host sends to the last
/// segment that closes the connection. A connected UDP socket is in the first state. Listening and unconnected sockets
/// are in none of them.
const WITH_PEER: u32 = 1 << ESTABLISHED
    | 1 << SYN_SENT
    | 1 << FIN_WAIT1
    | 1 << FIN_WAIT2
    | 1 << CLOSE_WAIT
    | 1 << LAST_ACK
    | 1 << CLOSING;
const ESTABLISHED: u32 = 1;
const SYN_SENT: u32 = 2;
const FIN_WAIT1: u32 = 4;
const FIN_WAIT2: u32 = 5;
const CLOSE_WAIT: u32 = 8;
const LAST_ACK: u32 = 9;
const CLOSING: u32 = 11;

/// `struct bpf_sock_tuple` of either family, in network byte order.
#[repr(C)]
struct Tuple<A> {
    source: A,
    destination: A,
    source_port: u16,
    destination_port: u16,
}

/// Looks for the socket that gets the packet, which has ports. Returns [`NONE`], [`UNCONNECTED`] or [`CONNECTED`].
#[inline(always)]
pub fn find(context: &Context, info: &PacketInfo) -> u64 {
    let mut ports = (
        (info.source_port as u16).to_be(),
        (info.destination_port as u16).to_be(),
    );
    let (mut source, mut destination) = (info.source.words, info.destination.words);
    // The peer of a packet that the host sends is the packet's destination.
    if constants().egress != 0 {
        (source, destination) = (destination, source);
        ports = (ports.1, ports.0);
    }
    if info.source.family == IPV4 {
        let (source, destination) = (first(&source), first(&destination));
        look_up(context, info.protocol, tuple(source, destination, ports))
    } else {
        look_up(context, info.protocol, tuple(source, destination, ports))
    }
}

/// The first four bytes of an address.
#[inline(always)]
fn first(words: &Words) -> u32 {
    // SAFETY: within the words, and aligned.
    unsafe { words.as_ptr().cast::<u32>().read() }
}

#[inline(always)]
fn tuple<A>(source: A, destination: A, ports: (u16, u16)) -> Tuple<A> {
    Tuple {
        source,
        destination,
        source_port: ports.0,
        destination_port: ports.1,
    }
}

#[inline(always)]
fn look_up<A>(context: &Context, protocol: u32, mut tuple: Tuple<A>) -> u64 {
    // The size ends with the ports, without padding.
    let size = (2 * size_of::<A>() + 4) as u32;
    let tuple = (&raw mut tuple).cast::<bpf_sock_tuple>();
    // SAFETY: the context is the program's, `size` is the length of the tuple, and `kind_of` releases the socket.
    unsafe {
        let (context, netns) = (context.as_ptr(), CURRENT_NAMESPACE);
        match protocol {
            TCP => kind_of(bpf_sk_lookup_tcp(context, tuple, size, netns, 0)),
            UDP => kind_of(bpf_sk_lookup_udp(context, tuple, size, netns, 0)),
            _ => NONE,
        }
    }
}

/// # Safety
/// `socket` is the result of a lookup, and not used again.
#[inline(always)]
unsafe fn kind_of(socket: *mut bpf_sock) -> u64 {
    if socket.is_null() {
        return NONE;
    }
    // SAFETY: the caller vouches for the pointer.
    let state = unsafe {
        let state = (&raw const (*socket).state).read_volatile();
        bpf_sk_release(socket.cast());
        state
    };
    if state < u32::BITS && WITH_PEER & (1 << state) != 0 {
        CONNECTED
    } else {
        UNCONNECTED
    }
}
