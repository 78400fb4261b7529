//! Programs that measure the cost of each step of the packet's path: each goes one step further than the one before.
//!
//! The kernel's test-run repeats a program over one buffer. So `draw` writes the next source address into the packet
//! and makes a tail call to the program under test, one of these or the XDP program. `draw` with a bare drop is the
//! baseline.

use core::hint::black_box;

use aya_ebpf::{
    bindings::xdp_action::{XDP_ABORTED, XDP_DROP, XDP_PASS},
    btf_maps::{Array, ProgramArray},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use limiter_common::{
    abi::{counters::FAST, rules::Limit},
    policy::{Found as _, Parsed, bucket::Charged, fast, full, parse, verdict::Reason},
    table::{entry::Shared as _, key::SourceKey},
};
use limiter_ebpf::{
    clock,
    config::{Kernel, constants},
    connection, counters,
    entry::Found,
    packet::{self, Cursor},
    table, verdict,
};
use network_types::{eth::EthHdr, ip::Ipv4Hdr};

/// A linear congruential generator of sources. The upper bits of its state select the source. User space makes it count
/// up, to fill a table, or jump, to measure in another order than that of the entries in memory.
#[repr(C)]
pub struct Walk {
    state: u64,
    multiplier: u64,
    increment: u64,
    /// Number of sources, a power of two, less one.
    mask: u64,
}

/// Bits of [`Walk::state`] below the number of the source.
const STATE_SHIFT: u32 = 40;

/// Address of source 0.
const FIRST_SOURCE: u32 = 0x0a00_0000;

#[btf_map]
static WALK: Array<Walk, 1> = Array::new();

/// The program under test.
#[btf_map]
static TARGET: ProgramArray<1> = ProgramArray::new();

/// [`TARGET`] for programs with multi-buffer packets: the kernel refuses mixed kinds.
#[btf_map]
static TARGET_FRAGS: ProgramArray<1> = ProgramArray::new();

#[xdp]
pub fn draw(context: XdpContext) -> u32 {
    write_next_source(&context);
    // SAFETY: nothing here needs dropping.
    unsafe { TARGET.tail_call(&context, 0) };
    XDP_ABORTED
}

#[xdp(frags)]
pub fn draw_frags(context: XdpContext) -> u32 {
    write_next_source(&context);
    // SAFETY: nothing here needs dropping.
    unsafe { TARGET_FRAGS.tail_call(&context, 0) };
    XDP_ABORTED
}

#[xdp]
pub fn drop_only(_context: XdpContext) -> u32 {
    XDP_DROP
}

#[xdp]
pub fn pass_only(_context: XdpContext) -> u32 {
    XDP_PASS
}

#[xdp(frags)]
pub fn drop_only_frags(_context: XdpContext) -> u32 {
    XDP_DROP
}

/// Parses the packet up to the source's key, which `black_box` writes to the stack for the lookup.
#[xdp]
pub fn step_parse(context: XdpContext) -> u32 {
    with_key(&context, |_, key| {
        black_box(key);
        XDP_DROP
    })
}

/// [`step_parse`], and the time.
#[xdp]
pub fn step_clock(context: XdpContext) -> u32 {
    with_key(&context, |_, key| {
        clock::begin(&context);
        black_box((key, latest()));
        XDP_DROP
    })
}

/// [`step_clock`], and the search for the source's entry.
#[xdp]
pub fn step_lookup(context: XdpContext) -> u32 {
    with_key(&context, |_, key| {
        clock::begin(&context);
        black_box(table::find_inline(key).map_or(Found::NONE, Found::from));
        black_box(latest());
        XDP_DROP
    })
}

/// [`step_lookup`], and the charge of the bucket.
#[xdp]
pub fn step_bucket(context: XdpContext) -> u32 {
    up_to(&context, |charged, _, _| {
        black_box(charged.entry);
    })
}

/// [`step_bucket`], and the source's counters.
#[xdp]
pub fn step_source(context: XdpContext) -> u32 {
    up_to(&context, |charged, reason, _| count(charged, reason))
}

/// [`step_source`], and the interface's counters: all steps of the XDP program.
#[xdp]
pub fn step_counters(context: XdpContext) -> u32 {
    up_to(&context, |charged, reason, length| {
        count(charged, reason);
        counters::count(FAST, reason, length);
    })
}

/// Runs the steps up to the decision, then `rest`.
#[inline(always)]
fn up_to(context: &XdpContext, rest: impl FnOnce(Charged<Found>, Reason, u64)) -> u32 {
    with_key(context, |limit, key| {
        let length = packet::length::<false>(context);
        clock::begin(context);
        let charged = fast::charge(&Kernel, limit, key, length);
        let reason = full::unless_established(&Kernel, charged.reason, |segments| {
            connection::is_of_host(context, segments)
        });
        rest(charged, reason, length);
        verdict::action(reason)
    })
}

#[inline(always)]
fn count(charged: Charged<Found>, reason: Reason) {
    if let Some(source) = charged.entry.entry() {
        source.count(reason);
    }
}

#[inline(always)]
fn with_key(context: &XdpContext, rest: impl FnOnce(&Limit, &SourceKey) -> u32) -> u32 {
    let source = match parse(&mut Cursor::new(context)) {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::Arp(_) | Parsed::NotIp | Parsed::Malformed | Parsed::TooManyTags => {
            return XDP_ABORTED;
        }
    };
    match constants().limit(0) {
        Some(limit) => rest(limit, &limit.mask.key(0, &source, 0)),
        None => XDP_ABORTED,
    }
}

/// The upper bound of the time.
#[inline(always)]
fn latest() -> u64 {
    clock::time_bounds().map_or_else(clock::now, |bounds| bounds.latest)
}

/// Writes the next source into the packet. Does not correct the header's checksum, which is not read.
#[inline(always)]
fn write_next_source(context: &XdpContext) {
    let mut packet = Cursor::new(context);
    let (Some(_), Some(header), Some(walk)) = (
        packet.take::<EthHdr>(),
        packet.header::<Ipv4Hdr>(),
        WALK.get_ptr_mut(0),
    ) else {
        return;
    };
    // SAFETY: a map value that only the measuring CPU uses, and a field of a header that `header` has checked.
    unsafe {
        let state = (*walk)
            .state
            .wrapping_mul((*walk).multiplier)
            .wrapping_add((*walk).increment);
        (*walk).state = state;
        let source = FIRST_SOURCE.wrapping_add((state >> STATE_SHIFT & (*walk).mask) as u32);
        (&raw const (*header).src_addr)
            .cast_mut()
            .cast::<u32>()
            .write_unaligned(source.to_be());
    }
}
