//! The program that only watches, for `limiter learn`: every packet passes. It counts all of them, and tells
//! user space of each packet of some sources, chosen by a secret, so that a flood of made-up sources costs no
//! more memory than user space has asked for.
#![no_std]
#![no_main]

use core::mem::MaybeUninit;

use aya_ebpf::{
    bindings::{BPF_RB_NO_WAKEUP, xdp_action::XDP_PASS},
    btf_maps::{Array, PerCpuArray, PerCpuHashMap, RingBuf},
    helpers::generated::bpf_ktime_get_ns,
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use limiter_common::{
    abi::{
        counters::Count,
        learn::{Flow, MASK, Sample, Sighting, Totals},
    },
    policy::{Parsed, parse},
};
use limiter_ebpf::packet::{self, Cursor};

/// Ring buffer of [`Sighting`]s. User space reads it some hundred times a second, and is not woken. Its values have no
/// type: libbpf wants one without a size.
#[btf_map]
static SIGHTINGS: RingBuf<(), { 4 << 20 }> = RingBuf::new();

#[btf_map]
static TOTALS: PerCpuArray<Totals, 1> = PerCpuArray::new();

#[btf_map]
static SAMPLE: Array<Sample, 1> = Array::new();

/// Flows that send so much that user space has asked to have them only counted.
#[btf_map]
static MUTED: PerCpuHashMap<Flow, Count, 256> = PerCpuHashMap::new();

#[xdp]
pub fn learn(context: XdpContext) -> u32 {
    watch(&context, packet::length::<false>(&context));
    XDP_PASS
}

/// For kernels that know packets in several buffers.
#[xdp(frags)]
pub fn learn_frags(context: XdpContext) -> u32 {
    watch(&context, packet::length::<true>(&context));
    XDP_PASS
}

#[inline(always)]
fn watch(context: &XdpContext, length: u64) {
    let Some(totals) = TOTALS.get_ptr_mut(0) else {
        return;
    };
    let mut packet = Cursor::new(context);
    let parsed = parse(&mut packet);
    let source = match parsed {
        Parsed::Ipv4(source) | Parsed::Ipv6(source) => source,
        Parsed::Malformed | Parsed::TooManyTags => {
            // SAFETY: a field of this CPU's own map value.
            return unsafe { add(&raw mut (*totals).malformed, length) };
        }
        Parsed::NotIp | Parsed::Arp(_) => {
            // SAFETY: as above.
            return unsafe { add(&raw mut (*totals).not_ip, length) };
        }
    };
    // SAFETY: as above.
    unsafe { add(&raw mut (*totals).seen, length) };
    let key = MASK.key(0, &source, 0);
    let Some(sample) = sample() else {
        return;
    };
    if sample.seed.mixed(&key.tag()) > sample.threshold {
        return;
    }
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    parsed.read(&mut packet, true, info);
    let flow = Flow::of(info);
    if sample.muted != 0
        && let Some(count) = MUTED.get_ptr_mut(flow)
    {
        // SAFETY: this CPU's own map value.
        return unsafe { add(count, length) };
    }
    match SIGHTINGS.reserve_untyped::<Sighting>(0) {
        Some(mut entry) => {
            entry.write(Sighting {
                // SAFETY: the helper has no preconditions.
                nanoseconds: unsafe { bpf_ktime_get_ns() },
                flow,
                length: length as u32,
                reserved: 0,
            });
            entry.submit(BPF_RB_NO_WAKEUP.into());
        }
        // SAFETY: as above.
        None => unsafe { add(&raw mut (*totals).lost, length) },
    }
}

#[inline(always)]
fn sample() -> Option<Sample> {
    // SAFETY: an aligned map value, to which there is no reference: user space writes its fields. A reader of half a
    // change is right for one packet by the old sample or by the new one.
    SAMPLE
        .get_ptr(0)
        .map(|sample| unsafe { sample.read_volatile() })
}

/// # Safety
/// `count` is in this CPU's own map value.
#[inline(always)]
unsafe fn add(count: *mut Count, length: u64) {
    // SAFETY: the caller vouches for it.
    unsafe {
        (*count).packets = (*count).packets.wrapping_add(1);
        (*count).bytes = (*count).bytes.wrapping_add(length);
    }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
