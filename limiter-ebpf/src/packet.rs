//! A packet: a bounds-checked cursor over its bytes.

use core::{
    arch::asm,
    hint::{assert_unchecked, black_box},
    mem::{MaybeUninit, transmute},
};

use aya_ebpf::EbpfContext;
use limiter_common::{
    abi::{
        Constants,
        rules::{NEEDS_VLAN, NONE},
    },
    pod::Pod as _,
    policy::{
        self, Bytes, PacketInfo, client,
        control::{self, Recognised},
        parse::ethernet,
        payload, sender,
    },
    table::{Seed, key::Address},
};

use crate::{
    constants,
    context::{self, Context, Raw},
    lent,
};

/// A reader of the packet's headers, from front to back.
#[derive(Clone, Copy)]
pub struct Cursor {
    position: usize,
    end: usize,
    context: *mut Raw,
}

impl Cursor {
    /// A cursor at the beginning of the frame.
    #[inline(always)]
    pub fn new(context: &Context) -> Self {
        Self {
            position: context::begin(context),
            end: context.data_end(),
            context: context.as_ptr().cast(),
        }
    }

    /// The header at the cursor. None if the packet ends within it. `T` is plain bytes.
    #[inline(always)]
    pub fn header<T>(&self) -> Option<*mut T> {
        self.has(size_of::<T>()).then_some(self.position as *mut T)
    }

    /// [`Self::header`]; moves the cursor past the header.
    #[inline(always)]
    pub fn take<T>(&mut self) -> Option<*mut T> {
        let header = self.header()?;
        self.position += size_of::<T>();
        Some(header)
    }
}

impl Cursor {
    /// Bytes from the beginning of the frame to the cursor.
    #[inline(always)]
    fn offset(&self) -> u32 {
        distance(context::begin(&Context::new(self.context)), self.position)
    }

    /// The cursor so many bytes further on.
    #[inline(always)]
    fn skipped(&self, bytes: u32) -> Self {
        /// More than the bytes of tags, IP header and extension headers.
        const MASK: u32 = 0x7fff;
        let (mut position, bytes) = (self.position, (bytes & MASK) as usize);
        // SAFETY: arithmetic on a register. LLVM would add the bytes to later offsets instead, and the verifier would not
        // know that these are the same place.
        unsafe {
            asm!("{position} += {bytes}", position = inout(reg) position, bytes = in(reg) bytes, options(pure, nomem, nostack));
        }
        Self { position, ..*self }
    }

    /// Copies exactly `length` bytes from the cursor on. Returns their number, or 0 if the frame has fewer.
    #[inline(always)]
    fn load<const WORDS: usize>(&self, into: &mut [u64; WORDS], length: u32) -> u32 {
        // Hidden from the compiler, which would otherwise check another number than the helper gets. Less one, because
        // the verifier of Linux 6.1 does not conclude from "not 0" that the length is at least 1.
        let less = black_box(length.wrapping_sub(1));
        if less >= (WORDS * size_of::<u64>()) as u32 {
            return 0;
        }
        let length = less + 1;
        // SAFETY: the context is the program's, and `into` is that long.
        let error = unsafe {
            let offset = distance((*self.context).data as usize, self.position);
            context::load(self.context, offset, into.as_mut_ptr(), length)
        };
        if error == 0 { length } else { 0 }
    }
}

/// Copies the first bytes of the frame, at most `most`, also from other buffers. Returns their number.
#[inline(always)]
pub fn copy<const WORDS: usize>(context: &Context, into: &mut [u64; WORDS], most: u32) -> u32 {
    Cursor::new(context).load(into, most.min(context::length(context)))
}

/// Bytes between two places of the packet. In assembly, because LLVM would subtract only the lower halves of pointers,
/// which the verifier refuses.
#[inline(always)]
pub fn distance(begin: usize, end: usize) -> u32 {
    let mut bytes = end;
    // SAFETY: arithmetic on a register.
    unsafe {
        asm!("{bytes} -= {begin}", bytes = inout(reg) bytes, begin = in(reg) begin, options(pure, nomem, nostack));
    }
    bytes as u32
}

impl Bytes for Cursor {
    // Without it, the verifier of Linux 6.18 refuses the program for the network stack.
    const UNTAGGED_FIRST: bool = context::IN_STACK;

    #[inline(always)]
    fn ether_type(&mut self) -> Option<u16> {
        // SAFETY: the context is the program's.
        let known = unsafe { context::ether_type(self.context) };
        known.or_else(|| ethernet(self))
    }

    #[inline(always)]
    fn sender(&self) -> Option<&[u8; 6]> {
        if constants().no_ethernet != 0 {
            return None;
        }
        sender(self.peek()?)
    }

    #[inline(always)]
    fn peek<const N: usize>(&self) -> Option<&[u8; N]> {
        if !self.has(N) {
            return None;
        }
        let bytes = self.position as *const [u8; N];
        // SAFETY: the bytes lie within the packet, which is never at address 0: the compiler need not ask.
        unsafe {
            assert_unchecked(!bytes.is_null());
            Some(&*bytes)
        }
    }

    #[inline(always)]
    fn skip(&mut self, bytes: usize) {
        self.position += bytes;
    }

    #[inline(always)]
    fn has(&self, bytes: usize) -> bool {
        self.position + bytes <= self.end
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        self.end.wrapping_sub(self.position)
    }

    /// By a helper, which also reads from a frame's other buffers. If the frame is shorter, the rest of its first buffer.
    #[inline(always)]
    fn copy(&self, into: &mut [u64; payload::WORDS], most: u32) -> u32 {
        let copied = self.load(into, most);
        if copied != 0 {
            return copied;
        }
        let remaining = self.remaining().cast_signed();
        if remaining < most as isize {
            return self.load(into, remaining as u32);
        }
        0
    }

    #[inline(always)]
    fn vlan(self) -> u32 {
        packet_vlan(self.context)
    }

    #[inline(always)]
    fn size_of_header(kind: u32, length: u32) -> u32 {
        header_size(kind, length)
    }
}

impl Recognised for Cursor {
    #[inline(always)]
    fn client(_: &Self, message: &Self, info: &PacketInfo, _: &Seed) -> u32 {
        packet_client(message.context, &raw const *info, message.offset())
    }

    #[inline(always)]
    fn control(_: &Self, message: &Self, behind: u32, info: &PacketInfo, _: &Constants) -> u32 {
        packet_control(message.context, &raw const *info, message.offset(), behind)
    }
}

/// [`control::recognise`] of a packet whose message is at this offset, so many bytes behind its IP header. A global
/// function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn packet_control(
    context: *mut Raw,
    info: *const PacketInfo,
    offset: u32,
    behind: u32,
) -> u32 {
    lent!(info);
    let frame = Cursor::new(&Context::new(context));
    let header = frame.skipped(offset.wrapping_sub(behind));
    control::recognise([&frame, &header, &frame.skipped(offset)], info, constants())
}

/// [`client::number`] for control traffic whose message is at this offset. A global function, which the verifier checks
/// once, and not for each kind of control traffic.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn packet_client(context: *mut Raw, info: *const PacketInfo, offset: u32) -> u32 {
    lent!(info);
    let frame = Cursor::new(&Context::new(context));
    client::number(&frame, &frame.skipped(offset), info, &constants().seed)
}

/// The VLAN of a packet: [`policy::parse::vlan`]. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn packet_vlan(context: *mut Raw) -> u32 {
    if constants().needs & NEEDS_VLAN == 0 {
        return NONE;
    }
    // SAFETY: this is the program's context.
    let outer = unsafe { context::outer_vlan(context) };
    policy::parse::vlan(&mut Cursor::new(&Context::new(context)), outer)
}

/// [`policy::size_of_header`], in bytes. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn header_size(kind: u32, length: u32) -> u32 {
    policy::size_of_header(kind, length)
}

/// The fields of an unknown packet, on the stack.
///
/// Written by words: LLVM would write two fields of four bytes at once, and the verifier requires eight bytes to be
/// aligned on the stack.
#[inline(always)]
pub fn no_info(place: &mut MaybeUninit<PacketInfo>) -> &mut PacketInfo {
    const WORDS: usize = size_of::<PacketInfo>() / size_of::<u64>();
    // SAFETY: a type without padding, of whole words.
    const NONE: [u64; WORDS] = unsafe { transmute(PacketInfo::of(Address::ZEROS)) };
    let words = place.as_mut_ptr().cast::<u64>();
    for (index, word) in NONE.into_iter().enumerate() {
        // SAFETY: a word of the place, which is aligned.
        unsafe { words.add(index).write_volatile(word) };
    }
    // SAFETY: every word is written.
    unsafe { place.assume_init_mut() }
}
