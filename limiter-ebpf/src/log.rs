//! Messages for `limiter log`, by aya-log, within the budget of each CPU. The level is a constant: without a log the
//! verifier removes all of it.
//!
//! A message is `event NUMBER slot NUMBER shadow NUMBER source ADDRESS`: the host knows the names.
//!
//! The exported functions have stack frames of their own, because the limits need the whole stack.

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns};
use aya_log_common::Level;
use aya_log_ebpf_macros::log;
use limiter_common::{
    abi::{
        NO_LIMIT,
        log::{DEBUG, ERROR, INFO, Logged, Logging, WARN},
    },
    policy::{self, verdict::Reason},
    table::key::IPV4,
};

use crate::{
    clock, constants,
    maps::{AYA_LOGS, LOGGED},
};

/// The names that the macros of aya-log use.
#[doc(hidden)]
pub mod macro_support {
    use aya_ebpf::maps::ring_buf::RingBufBytes;
    pub use aya_log_common::{
        Argument, DefaultFormatter, DisplayHint, Field, Header, IpFormatter, Level, LogValueLength,
    };

    /// The ring buffer, which counts messages without room.
    pub struct Logs;

    /// The ring buffer.
    pub const AYA_LOGS: Logs = Logs;

    impl Logs {
        /// Room for a message of `size` bytes.
        #[inline(always)]
        pub fn reserve_bytes(&self, size: usize, flags: u64) -> Option<RingBufBytes<'static>> {
            let room = super::AYA_LOGS.reserve_bytes(size, flags);
            if room.is_none() {
                super::lose();
            }
            room
        }
    }

    /// Returns true if messages of this level are wanted.
    #[inline(always)]
    pub fn level_enabled(level: Level) -> bool {
        level as u32 <= super::constants().log
    }
}

/// This CPU's state.
#[inline(always)]
fn of_this_cpu() -> Option<*mut Logging> {
    LOGGED.get_ptr_mut(0)
}

/// Notes what explains the verdict on this packet.
#[inline(always)]
pub fn note(event: Logged) {
    if constants().log != 0
        && let Some(cpu) = of_this_cpu()
    {
        // SAFETY: this CPU's own map value.
        unsafe { (*cpu).noted = event as u32 + 1 };
    }
}

/// Counts a message that is not written.
#[inline(always)]
fn lose() {
    if let Some(cpu) = of_this_cpu() {
        // SAFETY: this CPU's own map value.
        unsafe { (*cpu).lost += 1 };
    }
}

/// Flags of [`log_verdict`]: the packet is dropped, or would be without shadow.
const DROPS: u32 = 1;
const SHADOW: u32 = 2;

/// Reports the verdict on a packet, if it is wanted. The full path has decided: the loader takes it for a log.
#[inline(always)]
pub fn verdict(reason: Reason) {
    if constants().log != 0 {
        let drops = if reason.passes() { 0 } else { DROPS };
        let shadow = if reason.would_drop() { SHADOW } else { 0 };
        log_verdict(reason as u32, drops | shadow);
    }
}

/// Reports that the deadline of this program is over, once on each CPU.
#[inline(always)]
pub fn ended() {
    if constants().log == 0 {
        return;
    }
    let Some(cpu) = of_this_cpu() else { return };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*cpu).ended == 0 {
            (*cpu).ended = 1;
            log_event(Logged::Ended as u32, NO_LIMIT, 0);
        }
    }
}

/// The fast path reports nothing: the loader takes the other one for a log.
pub mod none {
    use limiter_common::policy::verdict::Reason;

    /// Does nothing.
    #[inline(always)]
    pub fn verdict(_: Reason) {}

    /// Does nothing.
    #[inline(always)]
    pub fn ended() {}
}

/// [`verdict`]: returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn log_verdict(reason: u32, flags: u32) -> u32 {
    const WOULD_DROP: u32 = Reason::WouldDrop as u32;
    const MALFORMED: u32 = Reason::MalformedWouldDrop as u32;
    if constants().log == 0 {
        return 0;
    }
    let (Some(cpu), Some(state)) = (of_this_cpu(), clock::of_this_cpu()) else {
        return 0;
    };
    // SAFETY: this CPU's own map values.
    let (noted, lists, refused, refused_by) = unsafe {
        let noted = (*cpu).noted;
        (*cpu).noted = 0;
        let evaluation = &(*state).evaluation;
        let (refused, refused_by) = (evaluation.refused, evaluation.refused_by);
        (noted, evaluation.lists, refused, refused_by)
    };
    let why = match reason {
        WOULD_DROP => policy::of_lists(lists).map_or(refused, |reason| reason as u32),
        MALFORMED => Reason::Malformed as u32,
        reason => reason,
    };
    let event = if flags == 0 {
        if noted != Logged::Proven as u32 + 1 {
            return 0;
        }
        Logged::Proven
    } else {
        match Logged::of_drop(why) {
            Some(Logged::NewSource) if noted == Logged::TableFull as u32 + 1 => Logged::TableFull,
            Some(event) => event,
            None => return 0,
        }
    };
    let slot = match constants().limit(refused_by) {
        Some(limit) if event.is_of_limit() => limit.slot,
        _ => NO_LIMIT,
    };
    if event.level() > constants().log {
        return 0;
    }
    log_event(event as u32, slot, (flags & SHADOW != 0).into())
}

/// Writes a message of a wanted level, or counts it as lost if the budget is empty. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn log_event(event: u32, slot: u32, shadow: u32) -> u32 {
    if constants().log == 0 {
        return 0;
    }
    let (Some(cpu), Some(state)) = (of_this_cpu(), clock::of_this_cpu()) else {
        return 0;
    };
    // SAFETY: this CPU's own map values; the helpers have no preconditions.
    let peer = unsafe {
        let jiffy = bpf_jiffies64();
        if (*cpu).jiffy != jiffy {
            (*cpu).jiffy = jiffy;
            let budget = (*cpu).budget.refilled(bpf_ktime_get_ns());
            (*cpu).budget.left = budget.left;
            (*cpu).budget.since = budget.since;
        }
        if (*cpu).budget.left == 0 {
            (*cpu).lost += 1;
            return 0;
        }
        (*cpu).budget.left -= 1;
        (*state).evaluation.info.peer(constants().egress)
    };
    const ENDED: u32 = Logged::Ended as u32;
    const MALFORMED: u32 = Logged::Malformed as u32;
    match (event, peer.family) {
        (ENDED | MALFORMED, _) => log_other(event, shadow),
        (_, IPV4) => log_ipv4(event, slot, shadow, peer.words[0]),
        _ => log_ipv6(event, slot, shadow, peer.words[0], peer.words[1]),
    }
}

/// The level of an event, as aya-log names it.
#[inline(always)]
fn level(event: u32) -> Level {
    match Logged::level_of(event) {
        ERROR => Level::Error,
        WARN => Level::Warn,
        INFO => Level::Info,
        DEBUG => Level::Debug,
        _ => Level::Trace,
    }
}

/// Writes a message without a source. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn log_other(event: u32, shadow: u32) -> u32 {
    log!(&(), level(event), "event {} shadow {}", event, shadow);
    0
}

/// Writes a message with an IPv4 source. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn log_ipv4(event: u32, slot: u32, shadow: u32, address: u64) -> u32 {
    let [a, b, c, d, ..] = address.to_ne_bytes();
    log!(
        &(),
        level(event),
        "event {} slot {} shadow {} source {:i}",
        event,
        slot,
        shadow,
        [a, b, c, d]
    );
    0
}

/// Writes a message with an IPv6 source. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn log_ipv6(event: u32, slot: u32, shadow: u32, first: u64, second: u64) -> u32 {
    let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) =
        (first.to_ne_bytes(), second.to_ne_bytes());
    log!(
        &(),
        level(event),
        "event {} slot {} shadow {} source {:i}",
        event,
        slot,
        shadow,
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    );
    0
}
