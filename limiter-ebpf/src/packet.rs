//! A packet from the driver: a bounds-checked cursor over its bytes, its length, and the metadata in front of it.

use core::mem::MaybeUninit;

use aya_ebpf::{helpers::generated::bpf_xdp_get_buff_len, programs::XdpContext};
use limiter_common::{
    abi::{
        CLOCK_PACKET, Stamp,
        rules::{ANY, WHOLE},
    },
    policy::{self, Bytes, PacketInfo},
};

use crate::constants;

/// A reader of the packet's headers, from front to back.
#[derive(Clone, Copy)]
pub struct Cursor {
    at: usize,
    end: usize,
}

impl Cursor {
    /// A cursor at the Ethernet header.
    #[inline(always)]
    pub fn new(context: &XdpContext) -> Self {
        Self {
            at: context.data(),
            end: context.data_end(),
        }
    }

    /// The header at the cursor. None if the packet ends within it. `T` is plain bytes.
    #[inline(always)]
    pub fn header<T>(&self) -> Option<*mut T> {
        self.has(size_of::<T>()).then_some(self.at as *mut T)
    }

    /// [`Self::header`]; moves the cursor past the header.
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

/// [`policy::size_of_header`], in bytes. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn header_size(kind: u32, length: u32) -> u32 {
    policy::size_of_header(kind, length)
}

/// The fields of an unknown packet, on the stack.
///
/// Written field by field: LLVM would write two fields of four bytes at once, and the verifier requires eight bytes to
/// be aligned on the stack.
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
        fragment: WHOLE, control: 0, length: 0,
    }
    // SAFETY: every field is written.
    unsafe { &mut *info }
}

// A new field of the packet fails to compile here: `no_info` must write it too.
const _: fn(PacketInfo) = |info| {
    let PacketInfo {
        source: _,
        protocol: _,
        flags: _,
        source_port: _,
        destination_port: _,
        fragment: _,
        control: _,
        length: _,
    } = info;
};

/// Bytes of the frame. In a program for multi-buffer frames, `data_end` is the end of the first buffer, so the kernel
/// is asked. In a replay, the stamp has the length, because a capture may be truncated.
#[inline(always)]
pub fn length<const FRAGS: bool>(context: &XdpContext) -> u64 {
    if constants().clock == CLOCK_PACKET
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

/// The stamp in front of the packet, if there is one.
#[inline(always)]
pub fn stamp(context: &XdpContext) -> Option<*mut Stamp> {
    let at = context.metadata();
    if at + size_of::<Stamp>() > context.data() {
        return None;
    }
    Some(at as *mut Stamp)
}
