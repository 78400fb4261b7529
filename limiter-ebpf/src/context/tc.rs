//! A packet in the network stack: tcx, for what comes in and for what goes out.

use core::{arch::asm, hint::black_box, num::NonZeroU32};

use aya_ebpf::{
    bindings::{__sk_buff, bpf_hdr_start_off::BPF_HDR_START_NET},
    helpers::generated::{
        bpf_skb_load_bytes, bpf_skb_load_bytes_relative, bpf_skb_pull_data, bpf_skb_set_tstamp,
    },
    programs::TcContext,
};
use limiter_common::{
    abi::{Stamp, rules::FIRST},
    arithmetic::size,
    policy::{
        headers::{ETHERNET, Header, Headers},
        merged::{Merged, Walk, end_of_transport},
    },
};

use crate::{constants, packet::distance};

/// The context of a program.
pub type Context = TcContext;
/// The kernel's type of it.
pub type Raw = __sk_buff;
/// The kernel's type of a verdict.
pub type Action = i32;

/// The packet goes on to the next program (`TCX_NEXT`, include/uapi/linux/bpf.h).
pub const PASS: Action = -1;
/// The packet is dropped (`TCX_DROP`).
pub const DROP: Action = 2;

/// Bytes of the longest headers that the parser needs of a packet that is not merged: Ethernet, as many VLAN tags as the
/// parser reads, the longest IP and TCP headers.
const HEADERS_MAX: u32 = 14 + 8 * 4 + 60 + 60;

/// Most bytes in front of a packet that comes in without an Ethernet header, as a mask.
const FOREIGN_MAX: u32 = 0xff;

/// Bytes of a VLAN tag.
const VLAN_TAG: u64 = 4;

/// Longest IP packet in bytes. The helper that reads relative to the network header reaches one byte further.
const IP_PACKET_MAX: u32 = 0xffff;

/// A field of the context.
macro_rules! field {
    ($context:expr, $name:ident) => {
        // SAFETY: the context is valid while the program runs.
        unsafe { (&raw const (*$context).$name).read_volatile() }
    };
}

/// True if packets may be merged, and can be delayed.
pub const IN_STACK: bool = true;

/// Lets the packet leave at `time`, in nanoseconds, whatever its sender asks for (`SO_TXTIME`). The qdisc `fq` does that. With a
/// time, it also ignores the sender's `SO_MAX_PACING_RATE`.
#[inline(always)]
pub fn leave_at(context: &Context, time: u64) {
    const MONOTONIC: u32 = 1;
    let raw = context.skb.skb;
    // SAFETY: the context is valid while the program runs.
    unsafe {
        // The helper does not know packets with VLAN tags in the frame.
        if bpf_skb_set_tstamp(raw, time, MONOTONIC) != 0 {
            (&raw mut (*raw).tstamp).write_volatile(time);
        }
    }
}

/// Lets a new source prove its address. In the network stack, it cannot.
#[inline(always)]
pub fn prove(_: &Context, _: u32, _: u32) -> u32 {
    FIRST
}

/// Answers the packet. Never called.
#[inline(always)]
pub fn answer(_: &Context) -> Action {
    DROP
}

/// Makes the headers readable: the kernel may keep a packet's beginning in pages that programs do not see. IPv6 extension
/// headers that are still unseen count as fields that cannot be seen.
#[inline(always)]
pub fn prepare(context: &Context) {
    let raw = context.skb.skb;
    let (length, seen) = (field!(raw, len), context.data_end() - context.data());
    if seen >= length.min(HEADERS_MAX) as usize {
        return;
    }
    // A merged packet has its payload in pages, which had better stay there.
    let wanted = match field!(raw, gso_size) {
        0 => HEADERS_MAX,
        _ => start(context) + merged_headers(raw, first(raw)),
    };
    let wanted = length.min(wanted);
    if seen < wanted as usize {
        // SAFETY: the helper has no preconditions. No pointer into the packet is used again.
        unsafe { bpf_skb_pull_data(raw, wanted) };
    }
}

/// Offset of the packet's first byte from the first byte that the kernel shows.
///
/// The kernel shows a packet that comes in from its MAC header on. Where a packet has no Ethernet header, this is usually
/// the IP header. On xfrm and vti it is a copy of the link-layer header that the encrypted packet came with
/// (`skb_mac_header_rebuild`). It is no part of the packet. A packet that goes out begins with what the interface sends.
#[inline(always)]
fn start(context: &Context) -> u32 {
    if !may_begin_later() {
        return 0;
    }
    // Hidden from the compiler, which would leave out the mask. The verifier needs it.
    black_box(network_header(context.skb.skb)) & FOREIGN_MAX
}

/// True if the kernel may show other bytes in front of a packet.
#[inline(always)]
fn may_begin_later() -> bool {
    constants().no_ethernet != 0 && constants().egress == 0
}

/// The place of the packet's first byte.
#[inline(always)]
pub fn begin(context: &Context) -> usize {
    if !may_begin_later() {
        return context.data();
    }
    // The pointer is read after the call: the compiler would save half of it across the call.
    let start = u64::from(start(context));
    let mut place = context.data();
    // SAFETY: arithmetic on a register. In assembly, because LLVM would add `start` to later offsets instead, and the
    // verifier would not know that these are the same place.
    unsafe {
        asm!("{place} += {start}", place = inout(reg) place, start = in(reg) start, options(pure, nomem, nostack));
    }
    place
}

/// Offset of the network header from the first byte that the kernel shows, at most [`FOREIGN_MAX`]. A global function,
/// which the verifier checks once.
///
/// No field of the context has it. But a helper reads relative to the network header, up to the end of the readable
/// bytes: it reads a byte that is as many bytes in front of that end as the network header, or fewer.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn network_header(context: *mut Raw) -> u32 {
    let context = Context::new(context);
    let readable = distance(context.data(), context.data_end());
    // Whether the network header is at most so many bytes behind the first byte.
    let is_within = |bytes: u32| {
        if bytes >= readable {
            return true;
        }
        let (raw, last) = (context.skb.skb.cast(), readable - bytes - 1);
        let mut byte = 0_u8;
        // SAFETY: one byte of the stack.
        unsafe {
            let into = (&raw mut byte).cast();
            bpf_skb_load_bytes_relative(raw, last, into, 1, BPF_HDR_START_NET) == 0
        }
    };
    if is_within(0) {
        return 0;
    }
    let mut bytes = 0;
    for bit in [128, 64, 32, 16, 8, 4, 2, 1] {
        if !is_within(bytes + bit - 1) {
            bytes += bit;
        }
    }
    // The helper does not reach the end of a longer packet. Only packets that their sender has merged are longer, and
    // they begin with the IP header.
    if readable - bytes > IP_PACKET_MAX {
        0
    } else {
        bytes
    }
}

/// The EtherType of a packet that begins with its IP header, in network byte order.
///
/// # Safety
/// `context` is the program's.
#[inline(always)]
pub unsafe fn ether_type(context: *mut Raw) -> Option<u16> {
    (constants().no_ethernet != 0).then(|| field!(context, protocol) as u16)
}

/// The id of the VLAN tag that the card or the kernel keeps beside the frame; 0 if there is none, or its id is 0.
///
/// # Safety
/// `context` is the program's.
#[inline(always)]
pub unsafe fn outer_vlan(context: *mut Raw) -> u32 {
    const ID: u32 = 0xfff;
    match field!(context, vlan_present) {
        0 => 0,
        _ => field!(context, vlan_tci) & ID,
    }
}

/// Size of the frame on the wire, as in [`size`]: of all packets that receive offload has merged, or that the interface
/// will make of it. The kernel keeps the outer VLAN tag beside the frame, also one that came in the frame. In a replay, the
/// stamp has the length, because a capture may be truncated.
#[inline(always)]
pub fn size<const FRAGS: bool>(context: &Context) -> u64 {
    let raw = context.skb.skb;
    let mut length = length(context);
    if let Some(stamp) = stamp(context)
        && stamp.length != 0
    {
        length = stamp.length;
    }
    let size = match field!(raw, gso_size) {
        0 => length.into(),
        _ => merged_size(raw, length, first(raw)),
    };
    if field!(raw, vlan_present) == 0 {
        return size;
    }
    let packets = size::packets(size);
    size::of(packets, size::bytes(size) + packets * VLAN_TAG)
}

/// The kind of the packet's first header.
#[inline(always)]
fn first(context: *mut Raw) -> u32 {
    // SAFETY: the context is the program's.
    unsafe { ether_type(context) }.map_or(ETHERNET, |kind| u16::from_be(kind).into())
}

/// The headers of a merged packet of this length.
struct Unread {
    context: *mut Raw,
    length: u32,
}

impl Headers for Unread {
    #[inline(always)]
    fn length(&self) -> u32 {
        self.length
    }

    /// By a helper, because headers may lie in pages.
    #[inline(always)]
    fn bytes(&self, offset: u32) -> Option<u64> {
        let mut word = 0_u64;
        let offset = start(&Context::new(self.context)) + offset;
        // SAFETY: the word has eight bytes.
        let error = unsafe { load(self.context, offset, &raw mut word, 8) };
        // SAFETY: the word is initialised. Its bytes were written behind the compiler's back.
        let word = unsafe { (&raw const word).read_volatile() };
        (error == 0).then(|| u64::from_be(word))
    }

    #[inline(always)]
    fn next(&self, header: u64) -> u64 {
        next_header(self.context, self.length, header)
    }

    #[inline(always)]
    fn step(&self, _: &Merged, walk: &mut Walk) -> bool {
        merged_step(self.context, self.length, walk) != 0
    }
}

impl Unread {
    /// The kernel's facts about the packet.
    #[inline(always)]
    fn merged(&self) -> Merged {
        let size = NonZeroU32::new(field!(self.context, gso_size));
        Merged {
            length: self.length,
            segment_size: size.unwrap_or(NonZeroU32::MIN),
            segment_count: match constants().guest {
                0 => field!(self.context, gso_segs),
                _ => 0,
            },
        }
    }
}

/// [`Merged::step`] of a merged packet of this length. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn merged_step(context: *mut Raw, length: u32, walk: *mut Walk) -> u32 {
    let headers = Unread { context, length };
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    match unsafe { walk.as_mut() } {
        Some(walk) => headers.merged().step(walk, &headers).into(),
        None => 1,
    }
}

/// [`Headers::next`] of a merged packet of this length. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn next_header(context: *mut Raw, length: u32, header: u64) -> u64 {
    let headers = Unread { context, length };
    Header::from_word(header).next(&headers).to_word()
}

/// The size of a merged packet of this length, whose first header is of this kind. A global function, which the verifier
/// checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn merged_size(context: *mut Raw, length: u32, kind: u32) -> u64 {
    let headers = Unread { context, length };
    headers.merged().size(Header::first(kind), &headers)
}

/// Bytes of a merged packet up to the end of its first transport header, or [`HEADERS_MAX`] if that is unknown. A global
/// function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn merged_headers(context: *mut Raw, kind: u32) -> u32 {
    let length = length(&Context::new(context));
    let end = end_of_transport(Header::first(kind), &Unread { context, length });
    end.unwrap_or(HEADERS_MAX)
}

/// Bytes of the packet, which may be a merged one.
#[inline(always)]
pub fn length(context: &Context) -> u32 {
    field!(context.skb.skb, len).wrapping_sub(start(context))
}

/// Copies `length` bytes at `offset`, also from other buffers. Returns 0, or an error if the frame is shorter.
///
/// # Safety
/// `context` is the program's, and `into` has `length` bytes.
#[inline(always)]
pub unsafe fn load(context: *mut Raw, offset: u32, into: *mut u64, length: u32) -> i64 {
    // SAFETY: the caller vouches for both.
    unsafe { bpf_skb_load_bytes(context.cast(), offset, into.cast(), length) }
}

/// The stamp in the context's control block, if the clock is that of the packet.
#[inline(always)]
pub fn stamp(context: &Context) -> Option<Stamp> {
    if constants().clock == limiter_common::abi::CLOCK_KERNEL {
        return None;
    }
    let [low, high, _, uncertainty, length] = field!(context.skb.skb, cb);
    Some(Stamp {
        nanoseconds: u64::from(high) << 32 | u64::from(low),
        reason: 0,
        uncertainty,
        length,
        reserved: 0,
    })
}

/// Writes the reason to the stamp, for tests and replay.
#[inline(always)]
pub fn report(context: &Context, reason: u32) {
    if constants().clock != limiter_common::abi::CLOCK_KERNEL {
        // SAFETY: the context is valid while the program runs.
        unsafe { (&raw mut (*context.skb.skb).cb[2]).write_volatile(reason) };
    }
}
