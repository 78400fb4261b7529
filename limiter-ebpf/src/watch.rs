//! Emits events of wanted packets for `limiter watch`, within each process's budget on each CPU. If no process watches, a
//! dropped packet costs one load and one branch, and one that passes nothing: only while a process wants those too, the
//! loader takes a program that looks.
//!
//! The exported functions have stack frames of their own, because the limits need the whole stack.

use core::{mem::MaybeUninit, slice::from_raw_parts};

use aya_ebpf::{
    EbpfContext,
    bindings::BPF_RB_NO_WAKEUP,
    helpers::generated::{bpf_get_prandom_u32, bpf_jiffies64, bpf_ktime_get_ns},
};
use limiter_common::{
    abi::{
        NO_LIMIT,
        events::{ANY_SLOT, ARP, EVERY, Event, SNAP_SHIFT, WATCHERS, Watch, Watched, Watches},
    },
    arithmetic::size,
    policy::{self, verdict::Reason},
    table::word::Word as _,
};

use crate::{
    atomic::Word,
    clock, constants,
    context::{Context, Raw},
    maps::{EVENTS, WATCHED},
    packet::{self, Cursor},
    read,
    switches::{self, Asked},
};

/// Added to the number of the reason if the packet passes only because of shadow.
const WOULD_DROP: u32 = 1 << 8;
/// Place of the number of the watch in the code of an event.
const PLACE_SHIFT: u32 = 16;

/// Emits an event to each process that watches and wants this packet: one that is dropped, or would be without shadow, or
/// with [`limiter_common::abi::Constants::passed`] any. `switches`: as this packet
/// has looked them up already, if it has. `details`: number of the reason, index of the limit that the packet
/// is over or that admitted it first, and bits of all these limits.
#[inline(always)]
pub fn emit(
    context: &Context,
    switches: Option<Asked>,
    length: u64,
    reason: Reason,
    details: impl FnOnce() -> (u32, u32, u64),
) {
    if reason.passes() && !reason.would_drop() && constants().passed == 0 {
        return;
    }
    if !switches.unwrap_or_else(Asked::look_up).is_watched() {
        return;
    }
    let (why, limit, limits) = details();
    let shadow = if reason.would_drop() { WOULD_DROP } else { 0 };
    watch_packet(context.as_ptr().cast(), length, why | shadow, limit, limits);
}

/// True if a limit gave the reason with this number.
#[inline(always)]
fn is_of_limit(why: u32) -> bool {
    const LIMIT: u32 = Reason::Limit as u32;
    const NEW_SOURCE: u32 = Reason::NewSource as u32;
    const CONTENDED: u32 = Reason::Contended as u32;
    const ANSWERED: u32 = Reason::Answered as u32;
    const ADMITTED: u32 = Reason::Admitted as u32;
    const PACED: u32 = Reason::Paced as u32;
    matches!(
        why,
        LIMIT | NEW_SOURCE | CONTENDED | ANSWERED | ADMITTED | PACED
    )
}

/// The watches.
#[inline(always)]
fn watches() -> Option<*mut Watches> {
    // SAFETY: a field of the map value.
    switches::record().map(|switches| unsafe { (&raw const (*switches).watches).cast_mut() })
}

/// The watch in this place.
#[inline(always)]
fn watch_in(watches: *const Watches, place: u32) -> *mut Watch {
    // SAFETY: the mask keeps the place within the map value.
    unsafe {
        let first: *const Watch = (&raw const (*watches).watches).cast();
        first.add((place & (WATCHERS - 1)) as usize).cast_mut()
    }
}

/// Emits an event to each process that wants the packet, has it in its sample, and whose budget is not empty. `code`: the
/// reason's number, plus [`WOULD_DROP`] in shadow. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn watch_packet(
    context: *mut Raw,
    length: u64,
    code: u32,
    limit: u32,
    limits: u64,
) -> u32 {
    let Some(watches) = watches() else {
        return 0;
    };
    let active = read!(watches, active);
    let mut place = 0;
    while place < WATCHERS {
        if active >> place & 1 != 0 {
            let code = code & (WOULD_DROP | (WOULD_DROP - 1)) | place << PLACE_SHIFT;
            watch_one(context, length, code, limit, limits);
        }
        place += 1;
    }
    0
}

/// [`watch_packet`] for the process whose place is in `code`, above [`PLACE_SHIFT`]. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn watch_one(context: *mut Raw, length: u64, code: u32, limit: u32, limits: u64) -> u32 {
    let place = code >> PLACE_SHIFT & (WATCHERS - 1);
    let (Some(watches), Some(cpu)) = (watches(), WATCHED.get_ptr_mut(place)) else {
        return 0;
    };
    let watch = watch_in(watches, place);
    let why = code & (WOULD_DROP - 1) & 63;
    if read!(watch, reasons) >> why & 1 == 0 {
        return 0;
    }
    let wanted = read!(watch, slot);
    let slot = if !is_of_limit(why) {
        NO_LIMIT
    } else if wanted == ANY_SLOT {
        constants()
            .limit(limit)
            .map_or(NO_LIMIT, |limit| limit.slot)
    } else {
        match constants().limit_in(wanted as u32) {
            Some((index, _)) if limits >> index & 1 != 0 => wanted as u32,
            _ => return 0,
        }
    };
    if wanted != ANY_SLOT && slot == NO_LIMIT {
        return 0;
    }
    if read!(watch, family) != 0 && watch_source(context, place) == 0 {
        return 0;
    }
    let sample = read!(watch, sample);
    // SAFETY: this CPU's own map value, and the value of `SWITCHES`; the helper has no preconditions.
    unsafe {
        if sample < EVERY && u64::from(bpf_get_prandom_u32()) > sample {
            return 0;
        }
        if !is_on(watches, place, cpu) {
            return 0;
        }
        if (*cpu).budget.left == 0 {
            (*cpu).lost += 1;
            return 0;
        }
        (*cpu).budget.left -= 1;
    }
    watch_write(context, length, code, slot)
}

/// True if the watch is still on. Reads the clock once per tick: ends a watch past its deadline, or refills the budget.
///
/// # Safety
/// `cpu` is this CPU's own map value, and `watches` is in the value of [`crate::maps::SWITCHES`].
#[inline(always)]
unsafe fn is_on(watches: *mut Watches, place: u32, cpu: *mut Watched) -> bool {
    let watch = watch_in(watches, place);
    let (until, active) = (read!(watch, until), read!(watches, active));
    // SAFETY: the caller vouches for the pointers; the helpers have no preconditions.
    unsafe {
        let jiffy = bpf_jiffies64();
        if (*cpu).jiffy == jiffy && (*cpu).until == until {
            return until != 0;
        }
        let now = bpf_ktime_get_ns();
        if now > until {
            // Compare-and-swap: another watch may have just begun.
            if until == 0 || Word::at(&raw mut (*watch).until).swap(until, 0) {
                Word::at(&raw mut (*watches).active).swap(active, active & !(1 << place));
            }
            return false;
        }
        (*cpu).jiffy = jiffy;
        (*cpu).until = until;
        let budget = (*cpu).budget.refilled(now);
        (*cpu).budget.left = budget.left;
        (*cpu).budget.since = budget.since;
        true
    }
}

/// Returns 1 if the watch in this place wants the packet's peer, otherwise 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn watch_source(context: *mut Raw, place: u32) -> u32 {
    let context = Context::new(context);
    let Some(watches) = watches() else {
        return 0;
    };
    let watch = watch_in(watches, place);
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    let mut packet = Cursor::new(&context);
    // The whole header is read only for the destination.
    if constants().egress != 0 {
        policy::read(&mut packet, info);
    } else if let Some(source) = policy::parse(&mut packet).source() {
        info.source = source;
    }
    let peer = info.peer(constants().egress);
    let is_wanted = read!(watch, family) == peer.family as u64
        && (peer.words[0] ^ read!(watch, address[0])) & read!(watch, mask[0]) == 0
        && (peer.words[1] ^ read!(watch, address[1])) & read!(watch, mask[1]) == 0;
    is_wanted.into()
}

/// Parses the packet again and writes the event with the packet's first bytes, or counts it as lost if the ring buffer
/// is full. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn watch_write(context: *mut Raw, length: u64, code: u32, slot: u32) -> u32 {
    let context = Context::new(context);
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    let mut packet = Cursor::new(&context);
    let is_ip = policy::read(&mut packet, info);
    if !is_ip && info.source.family != 0 {
        info.protocol = ARP;
    }
    let (Some(watches), Some(state)) = (watches(), clock::of_this_cpu()) else {
        return 0;
    };
    let place = code >> PLACE_SHIFT & (WATCHERS - 1);
    let watch = watch_in(watches, place);
    let (session, sample) = (read!(watch, session), read!(watch, sample));
    // SAFETY: this CPU's own map value; the helper has no preconditions.
    let (event, copied) = unsafe {
        let event = &raw mut (*state).event;
        (*event).nanoseconds = bpf_ktime_get_ns();
        (*event).session = session;
        (*event).source = info.source.words;
        (*event).family = info.source.family;
        (*event).protocol = info.protocol;
        (*event).destination_port = info.destination_port;
        (*event).slot = slot;
        (*event).length = size::bytes(length) as u32;
        (*event).packets = size::packets(length) as u32;
        (*event).reason = code & (WOULD_DROP - 1);
        (*event).would_drop = (code / WOULD_DROP) & 1;
        (*event).has_destination = is_ip.into();
        (*event).destination = info.destination.words;
        (*event).source_port = info.source_port;
        (*event).flags = info.flags;
        (*event).sample = sample as u32;
        (event, &mut (*state).copied)
    };
    let snap = (read!(watch, process) >> SNAP_SHIFT) as u32;
    let copied = if constants().can_copy != 0 {
        packet::copy(&context, copied, snap)
    } else {
        0
    };
    // SAFETY: the copied bytes follow the event in the map value.
    let whole = unsafe {
        from_raw_parts(
            event.cast_const().cast(),
            size_of::<Event>() + copied as usize,
        )
    };
    let Some(events) = EVENTS.get(place) else {
        return 0;
    };
    if events
        .output_untyped::<[u8]>(whole, BPF_RB_NO_WAKEUP as u64)
        .is_err()
        && let Some(cpu) = WATCHED.get_ptr_mut(place)
    {
        // SAFETY: this CPU's own map value.
        unsafe { (*cpu).lost += 1 };
    }
    0
}
