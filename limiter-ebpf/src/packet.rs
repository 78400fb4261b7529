//! A packet as the driver hands it over: a cursor over its bytes that carries the bounds check, its
//! length, and the metadata in front of it.

use core::mem::MaybeUninit;

use aya_ebpf::{helpers::generated::bpf_xdp_get_buff_len, programs::XdpContext};
use limiter_common::{
    abi::{
        CLOCK_PACKET, Stamp,
        rules::{ANY, WHOLE},
    },
    policy::{self, Bytes, PacketInfo},
};

use crate::config;

/// Reads headers from the front of the packet, one after the other.
#[derive(Clone, Copy)]
pub struct Cursor {
    at: usize,
    end: usize,
}

impl Cursor {
    /// At the Ethernet header.
    #[inline(always)]
    pub fn new(context: &XdpContext) -> Self {
        Self {
            at: context.data(),
            end: context.data_end(),
        }
    }

    /// The header at the cursor, or none if the packet ends within it. `T` is plain bytes.
    #[inline(always)]
    pub fn header<T>(&self) -> Option<*mut T> {
        self.has(size_of::<T>()).then_some(self.at as *mut T)
    }

    /// Like [`Self::header`], and moves past the header.
    #[inline(always)]
    pub fn take<T>(&mut self) -> Option<*mut T> {
        let header = self.header()?;
        self.at += size_of::<T>();
        Some(header)
    }
}

impl Bytes for Cursor {
    #[inline(always)]
    fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        // SAFETY: `header` has checked that the bytes lie within the packet.
        self.header().map(|bytes| unsafe { &*bytes })
    }

    #[inline(always)]
    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    #[inline(always)]
    fn has(&self, bytes: usize) -> bool {
        self.at + bytes <= self.end
    }

    #[inline(always)]
    fn size_of_header(kind: u32, length: u32) -> u32 {
        header_size(kind, length)
    }
}

/// [`policy::size_of_header`], in bytes. The verifier checks it by itself (global functions, Linux 5.6).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn header_size(kind: u32, length: u32) -> u32 {
    policy::size_of_header(kind, length)
}

/// A packet of which nothing is known, on the stack.
///
/// Field by field: LLVM would write two of four bytes at once wherever they lie, and the verifier
/// wants eight bytes aligned on the stack.
#[inline(always)]
pub fn no_info(place: &mut MaybeUninit<PacketInfo>) -> &mut PacketInfo {
    let info = place.as_mut_ptr();
    macro_rules! write {
        ($($field:ident$(.$inner:ident)?$([$index:literal])?: $value:expr),+ $(,)?) => {
            // SAFETY: fields of the place, which is aligned.
            unsafe { $((&raw mut (*info).$field$(.$inner)?$([$index])?).write_volatile($value);)+ }
        };
    }
    write! {
        source.words[0]: 0, source.words[1]: 0, source.family: 0, source.reserved: 0,
        protocol: ANY, flags: ANY, source_port: ANY, destination_port: ANY,
        fragment: WHOLE, control: 0,
    }
    // SAFETY: every field is written.
    unsafe { &mut *info }
}

/// Bytes of the frame. In a program for multi-buffer frames `data_end` is only the end of the first
/// buffer, and the kernel is asked; a capture may have less of it than there was.
#[inline(always)]
pub fn length<const FRAGS: bool>(context: &XdpContext) -> u64 {
    if config::clock() == CLOCK_PACKET
        && let Some(stamp) = stamp(context)
    {
        // SAFETY: `stamp` has checked that it lies within the metadata.
        let length = unsafe { (&raw const (*stamp).length).read() };
        if length != 0 {
            return length;
        }
    }
    if FRAGS {
        // SAFETY: the helper reads the context, which is valid while the program runs.
        return unsafe { bpf_xdp_get_buff_len(context.ctx) };
    }
    (context.data_end() - context.data()) as u64
}

/// The stamp in front of the packet, if the packet brings its own time.
#[inline(always)]
pub fn stamp(context: &XdpContext) -> Option<*mut Stamp> {
    let at = context.metadata();
    if at + size_of::<Stamp>() > context.data() {
        return None;
    }
    Some(at as *mut Stamp)
}
