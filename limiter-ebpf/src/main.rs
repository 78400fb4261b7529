//! The XDP program: what a driver runs on every packet that it has received.
#![no_std]
#![no_main]

use aya_ebpf::{macros::xdp, programs::XdpContext};
use limiter_common::{layout::CLOCK_PACKET, verdict::Reason};
use limiter_ebpf::{
    bucket, config, counters,
    packet::{self, Cursor},
    parse::{Parsed, parse},
    verdict,
};

/// For kernels before 5.18, and for drivers that give a packet in one buffer only.
#[xdp]
pub fn limiter(context: XdpContext) -> u32 {
    limit::<false>(&context)
}

/// The same for kernels that know multi-buffer packets: jumbo frames.
#[xdp(frags)]
pub fn limiter_frags(context: XdpContext) -> u32 {
    limit::<true>(&context)
}

#[inline(always)]
fn limit<const FRAGS: bool>(context: &XdpContext) -> u32 {
    let length = packet::length::<FRAGS>(context);
    let reason = match parse(&mut Cursor::new(context)) {
        Parsed::NotIp => Reason::NotIp,
        Parsed::Malformed => verdict::in_force(Reason::Malformed),
        Parsed::Ip(key) => {
            let charged = bucket::charge(context, &key, length);
            let reason = verdict::in_force(charged.reason);
            if let Some(entry) = charged.entry {
                entry.count(reason, length);
            }
            #[cfg(feature = "log")]
            log(context, &key, reason, length);
            reason
        }
    };
    counters::count(reason, length);
    if config::clock() == CLOCK_PACKET {
        report(context, reason);
    }
    verdict::action(reason)
}

/// Tells a test or a replay why.
#[inline(always)]
fn report(context: &XdpContext, reason: Reason) {
    if let Some(stamp) = packet::stamp(context) {
        // SAFETY: `stamp` has checked that it lies within the metadata.
        unsafe { (&raw mut (*stamp).reason).write(reason as u32) };
    }
}

#[cfg(feature = "log")]
#[inline(always)]
fn log(context: &XdpContext, key: &limiter_common::key::SourceKey, reason: Reason, length: u64) {
    use aya_log_ebpf::debug;
    use limiter_common::key::IPV4;

    let [a, b, c, d] = key.address;
    if key.family == IPV4 {
        debug!(
            context,
            "{:i}: {} bytes, reason {}",
            u32::from_be(a),
            length,
            reason as u32
        );
    } else {
        debug!(
            context,
            "{:x}:{:x}:{:x}:{:x}: {} bytes, reason {}",
            u32::from_be(a),
            u32::from_be(b),
            u32::from_be(c),
            u32::from_be(d),
            length,
            reason as u32
        );
    }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
