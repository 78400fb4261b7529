//! A packet at the driver: XDP.

use core::arch::asm;

use aya_ebpf::{
    bindings::{xdp_action, xdp_md},
    helpers::generated::{bpf_xdp_get_buff_len, bpf_xdp_load_bytes},
    programs::XdpContext,
};
use limiter_common::abi::Stamp;

use crate::constants;
pub use crate::proof::{answer, prove};

/// The context of a program.
pub type Context = XdpContext;
/// The kernel's type of it.
pub type Raw = xdp_md;
/// The kernel's type of a verdict.
pub type Action = u32;

/// The packet goes on.
pub const PASS: Action = xdp_action::XDP_PASS;
/// The packet is dropped.
pub const DROP: Action = xdp_action::XDP_DROP;

/// True if packets may be merged, and can be delayed.
pub const IN_STACK: bool = false;

/// Lets the packet leave at `at` nanoseconds. Never called.
#[inline(always)]
pub fn leave_at(_: &Context, _: u64) {}

/// Makes the headers readable. They always are.
#[inline(always)]
pub fn prepare(_: &Context) {}

/// The place of the packet's first byte.
#[inline(always)]
pub fn begin(context: &Context) -> usize {
    context.data()
}

/// The EtherType of a packet that begins with its IP header. XDP sees the Ethernet header.
///
/// # Safety
/// None is needed.
#[inline(always)]
pub unsafe fn ether_type(_: *mut Raw) -> Option<u16> {
    None
}

/// The id of the VLAN tag beside the frame. XDP does not see it before Linux 6.8.
///
/// # Safety
/// None: this only has the signature of the program for the network stack.
#[inline(always)]
pub unsafe fn outer_vlan(_: *mut Raw) -> u32 {
    0
}

/// Size of the frame, as in [`limiter_common::arithmetic::size`]. In a program for multi-buffer frames, `data_end` is the
/// end of the first buffer, so the kernel is asked. In a replay, the stamp has the length, because a capture may be
/// truncated.
#[inline(always)]
pub fn size<const FRAGS: bool>(context: &Context) -> u64 {
    if let Some(stamp) = stamp(context)
        && stamp.length != 0
    {
        return stamp.length.into();
    }
    if FRAGS {
        return length(context).into();
    }
    let mut bytes = context.data_end();
    // SAFETY: arithmetic on a register. In assembly, because LLVM would subtract only the lower halves of pointers, which
    // the verifier refuses.
    unsafe {
        asm!("{bytes} -= {begin}", bytes = inout(reg) bytes, begin = in(reg) context.data(), options(pure, nomem, nostack));
    }
    // The upper half counts merged packets, of which there are none: the compiler shall know.
    (bytes as u32).into()
}

/// Bytes of the frame in all buffers (Linux 5.18).
#[inline(always)]
pub fn length(context: &Context) -> u32 {
    // SAFETY: the helper reads the context, which is valid while the program runs.
    unsafe { bpf_xdp_get_buff_len(context.ctx) as u32 }
}

/// Copies `length` bytes at `offset`, also from other buffers. Returns 0, or an error if the frame is shorter.
///
/// # Safety
/// `context` is the program's, and `into` has `length` bytes.
#[inline(always)]
pub unsafe fn load(context: *mut Raw, offset: u32, into: *mut u64, length: u32) -> i64 {
    // SAFETY: the caller vouches for both.
    unsafe { bpf_xdp_load_bytes(context, offset, into.cast(), length) }
}

/// The stamp in front of the packet, if the clock is that of the packet.
#[inline(always)]
pub fn stamp(context: &Context) -> Option<Stamp> {
    // SAFETY: `stamp_place` has checked that it lies within the metadata.
    stamp_place(context).map(|stamp| unsafe {
        Stamp {
            nanoseconds: (&raw const (*stamp).nanoseconds).read(),
            reason: 0,
            uncertainty: (&raw const (*stamp).uncertainty).read(),
            length: (&raw const (*stamp).length).read(),
            reserved: 0,
        }
    })
}

/// Writes the reason to the packet's stamp, for tests and replay.
#[inline(always)]
pub fn report(context: &Context, reason: u32) {
    if let Some(stamp) = stamp_place(context) {
        // SAFETY: `stamp_place` has checked that it lies within the metadata.
        unsafe { (&raw mut (*stamp).reason).write(reason) };
    }
}

#[inline(always)]
fn stamp_place(context: &Context) -> Option<*mut Stamp> {
    let metadata = context.metadata();
    if constants().clock == limiter_common::abi::CLOCK_KERNEL
        || metadata + size_of::<Stamp>() > context.data()
    {
        return None;
    }
    Some(metadata as *mut Stamp)
}
