//! The program of `limiter learn`. It passes and counts every packet, and sends user space the packets of a sample of
//! sources, apart from those that its limits will not see: of the host's own connections, and control traffic. A secret seed selects the sample, so that a flood of forged sources cannot fill user space's memory.
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
        learn::{PORTS, Sample, Service, Sighting, Totals, source_of},
    },
    policy::learn::{Kind, read},
    table::key::Address,
};
use limiter_ebpf::{
    connection,
    constants::constants,
    context,
    packet::{self, Cursor},
};

/// Ring buffer of [`Sighting`]s. User space polls it some hundred times a second, and is not woken. Its values have no
/// type, because libbpf requires a type without a size.
#[btf_map]
static SIGHTINGS: RingBuf<(), { 4 << 20 }> = RingBuf::new();

#[btf_map]
static TOTALS: PerCpuArray<Totals, 1> = PerCpuArray::new();

#[btf_map]
static SAMPLE: Array<Sample, 1> = Array::new();

/// Sources that are counted but not sent, at the request of user space.
#[btf_map]
static MUTED: PerCpuHashMap<Address, Count, 256> = PerCpuHashMap::new();

/// 1 for each destination port of TCP to which a segment came that follows a handshake.
#[btf_map]
static IN_USE: Array<u32, { PORTS as usize }> = Array::new();

#[xdp]
pub fn learn(context: XdpContext) -> u32 {
    watch(&context, context::size::<false>(&context));
    XDP_PASS
}

/// [`learn`] with multi-buffer packets.
#[xdp(frags)]
pub fn learn_frags(context: XdpContext) -> u32 {
    watch(&context, context::size::<true>(&context));
    XDP_PASS
}

#[inline(always)]
fn watch(context: &XdpContext, length: u64) {
    let Some(totals) = TOTALS.get_ptr_mut(0) else {
        return;
    };
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    let kind = read(&mut Cursor::new(context), info, constants());
    if matches!(kind, Kind::NotIp) {
        return;
    }
    if matches!(kind, Kind::Malformed) {
        // SAFETY: a field of this CPU's own map value.
        return unsafe { add(&raw mut (*totals).malformed, length) };
    }
    // SAFETY: a field of this CPU's own map value.
    unsafe { add(&raw mut (*totals).seen, length) };
    if matches!(kind, Kind::Control) {
        // SAFETY: a field of this CPU's own map value.
        return unsafe { add(&raw mut (*totals).control, length) };
    }
    if info.follows_handshake() {
        mark(info.destination_port);
    }
    // Also finds out by itself that a packet opens a connection.
    if connection::is_established(context) {
        // SAFETY: a field of this CPU's own map value.
        return unsafe { add(&raw mut (*totals).connections, length) };
    }
    let (source, service) = (source_of(&info.source), Service::of(info));
    let Some(sample) = sample() else {
        return;
    };
    if !sample.has(&source) {
        return;
    }
    if sample.muted != 0
        && let Some(count) = MUTED.get_ptr_mut(source)
    {
        // SAFETY: this CPU's own map value.
        return unsafe { add(count, length) };
    }
    match SIGHTINGS.reserve_untyped::<Sighting>(0) {
        Some(mut entry) => {
            entry.write(Sighting {
                // SAFETY: the helper has no preconditions.
                nanoseconds: unsafe { bpf_ktime_get_ns() },
                source,
                service,
            });
            entry.submit(BPF_RB_NO_WAKEUP.into());
        }
        // SAFETY: a field of this CPU's own map value.
        None => unsafe { add(&raw mut (*totals).lost, length) },
    }
}

/// Marks a port as one to which such a segment came.
#[inline(always)]
fn mark(port: u32) {
    if let Some(marked) = IN_USE.get_ptr_mut(port) {
        // SAFETY: an aligned map value without references. Other CPUs write the same number.
        unsafe {
            if marked.read_volatile() == 0 {
                marked.write_volatile(1);
            }
        }
    }
}

#[inline(always)]
fn sample() -> Option<Sample> {
    // SAFETY: an aligned map value without references. User space writes its fields one by one, so a few packets may be
    // sampled by a mix of old and new fields.
    SAMPLE
        .get_ptr(0)
        .map(|sample| unsafe { sample.read_volatile() })
}

/// # Safety
/// `count` is in this CPU's own map value.
#[inline(always)]
unsafe fn add(count: *mut Count, length: u64) {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        (*count).packets = (*count).packets.wrapping_add(1);
        (*count).bytes = (*count).bytes.wrapping_add(length);
    }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
