//! Reads the headers of a packet that may get an answer, and sends the answer.

use core::hint::black_box;

use aya_ebpf::{
    bindings::xdp_action,
    helpers::generated::{bpf_xdp_load_bytes, bpf_xdp_store_bytes},
    programs::XdpContext,
};
use limiter_common::policy::{
    self, Parsed,
    handshake::{Segment, TCP, WORDS},
};

use crate::{clock, host, new_sources, packet::Cursor};

/// Finds the IP header.
#[inline(always)]
pub fn find(context: &XdpContext, segment: &mut Segment) -> Option<()> {
    let mut packet = Cursor::new(context);
    segment.ipv6 = match policy::parse(&mut packet) {
        Parsed::Ipv4(_) => 0,
        Parsed::Ipv6(_) => 1,
        _ => return None,
    };
    segment.offset = (packet.header::<u32>()? as usize).wrapping_sub(context.data()) as u32;
    Some(())
}

/// Copies the IP header and `length` bytes behind it.
#[inline(always)]
pub fn load(context: &XdpContext, segment: &mut Segment, length: u32) -> Option<()> {
    let all = bounded(segment.ip_length() + length, 4 * WORDS as u32)?;
    // SAFETY: the context is the program's, and the headers have room.
    let error = unsafe { bpf_xdp_load_bytes(context.ctx, segment.offset, ip(segment).cast(), all) };
    (error == 0).then_some(())
}

/// The IP header.
#[inline(always)]
pub fn ip(segment: &mut Segment) -> *mut u32 {
    let words = segment.words.as_mut_ptr();
    // SAFETY: within the words.
    unsafe { words.add(TCP).byte_sub(segment.ip_length() as usize) }
}

/// `length` if it is 1 to `most`, hidden from the compiler, which would otherwise check another number than the helper
/// gets. Less one, because the verifier of Linux 6.1 does not conclude from "not 0" that it is at least 1.
#[inline(always)]
pub fn bounded(length: u32, most: u32) -> Option<u32> {
    let less = black_box(length.wrapping_sub(1));
    (less < most).then(|| less + 1)
}

/// True if an answer is within the budget of this row, which [`new_sources::take`] charges, and the host would answer.
#[inline(always)]
pub fn may_answer(context: &XdpContext, segment: &Segment, row: u32) -> bool {
    let is_free =
        !new_sources::is_exhausted(row) && new_sources::reserve(row, clock::present().unwrap_or(0));
    is_free && host::is_for_host(context, segment)
}

/// The addresses and behind them the ports, as in `struct bpf_sock_tuple`; and their bytes.
#[inline(always)]
pub fn tuple<T>(segment: &mut Segment) -> (*mut T, u32) {
    let bytes = if segment.ipv6 != 0 { 32 } else { 8 };
    let ports = segment.words.as_mut_ptr().wrapping_add(TCP);
    (ports.wrapping_byte_sub(bytes).cast(), bytes as u32 + 4)
}

/// Writes `length` bytes behind the IP header, and this header, into the packet, and sends it back.
#[inline(always)]
pub fn send(context: &XdpContext, segment: &mut Segment, length: u32) -> Option<u32> {
    let length = bounded(segment.ip_length() + length, 4 * WORDS as u32)?;
    let addresses = Cursor::new(context).header::<[[u16; 3]; 2]>()?;
    // SAFETY: `header` has checked that the bytes lie within the packet, which begins at an even address. The context is
    // the program's, and the headers have `length` bytes.
    let error = unsafe {
        let [destination, source] = addresses.read();
        addresses.write([source, destination]);
        bpf_xdp_store_bytes(context.ctx, segment.offset, ip(segment).cast(), length)
    };
    (error == 0).then_some(xdp_action::XDP_TX)
}
