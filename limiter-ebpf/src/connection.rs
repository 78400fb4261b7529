//! Finds packets of the host's established connections, which may be exempt from limits.

use core::mem::MaybeUninit;

use aya_ebpf::{EbpfContext, bindings::xdp_md, programs::XdpContext};
use limiter_common::policy::{self, full::NOT_OPENING};

use crate::packet::{self, Cursor};
use crate::sockets;

/// Whether one of the host's sockets is connected to the packet's sender.
#[inline(always)]
pub fn is_of_host(context: &XdpContext, segments: u32) -> bool {
    is_established(context.as_ptr().cast(), segments) != 0
}

/// Returns 1 if one of the host's sockets is connected to the packet's sender, otherwise 0. Parses the packet again:
/// the caller's stack has no room for the parsed fields.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_established(context: *mut xdp_md, segments: u32) -> u32 {
    let context = XdpContext::new(context);
    let mut packet = Cursor::new(&context);
    let mut place = MaybeUninit::uninit();
    let info = packet::no_info(&mut place);
    let is_ip = policy::read(&mut packet, info);
    let is_looked_up = is_ip && !(segments == NOT_OPENING && info.opens_connection());
    (is_looked_up && sockets::any_connected(&context, info)).into()
}
