//! What several limits and lists want to know of a packet, and what they have made of it so far.

use core::mem::MaybeUninit;

use limiter_common::{
    key::Address,
    rules::{ANY, NONE, WHOLE},
};

/// Lies on the stack, and goes by pointer to the functions that the verifier checks by themselves.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Facts {
    /// When it came, in nanoseconds; [`crate::bucket::NOT_READ`] until somebody must know.
    pub now: u64,
    /// Bytes of the frame.
    pub length: u64,
    /// Limits that match it, by index.
    pub matching: u64,
    /// Limits that it has been charged to.
    pub charged: u64,
    /// Limits in shadow that would have dropped it.
    pub would_drop: u64,
    /// Limits that it needs a new bucket of.
    pub new: u64,
    /// Its source.
    pub source: Address,
    /// Transport protocol, or [`ANY`] if it cannot be seen.
    pub protocol: u32,
    /// Source port, [`NONE`], or [`ANY`] if it cannot be seen.
    pub source_port: u32,
    /// Destination port, likewise.
    pub destination_port: u32,
    /// TCP flags, likewise.
    pub flags: u32,
    /// Where it stands in its datagram.
    pub fragment: u32,
    /// Lists that decide about its source.
    pub lists: u32,
    /// 1: control traffic.
    pub control: u16,
    /// Index of the limit that refused it.
    pub refused_by: u16,
    /// What that said.
    pub refused: u16,
    /// 1: the limit has counted that already.
    pub counted: u8,
    /// 1: the token for a new source is taken. One does for all buckets that are made for the packet.
    pub paid: u8,
}

impl Facts {
    /// A packet of which no more is known than its length.
    ///
    /// Field by field: LLVM would write two of four bytes at once wherever they lie, and the verifier
    /// wants eight bytes aligned on the stack.
    #[inline(always)]
    pub fn begin(place: &mut MaybeUninit<Self>, length: u64) -> &mut Self {
        let facts = place.as_mut_ptr();
        macro_rules! write {
            ($($field:ident$(.$inner:ident$([$index:literal])?)?: $value:expr),+ $(,)?) => {
                // SAFETY: fields of the place, which is aligned.
                unsafe { $((&raw mut (*facts).$field$(.$inner$([$index])?)?).write_volatile($value);)+ }
            };
        }
        write! {
            now: 0, length: length, matching: 0, charged: 0, would_drop: 0, new: 0,
            source.words[0]: 0, source.words[1]: 0, source.family: 0, source.reserved: 0,
            protocol: ANY, source_port: ANY, destination_port: ANY, flags: ANY,
            fragment: WHOLE, control: 0, lists: 0,
            refused_by: 0, refused: 0, counted: 0, paid: 0,
        }
        // SAFETY: every field is written.
        unsafe { &mut *facts }
    }

    /// Notes that the protocol has no ports. Field by field, as in [`Self::begin`].
    #[inline(always)]
    pub fn set_no_ports(&mut self) {
        // SAFETY: fields of a valid value.
        unsafe {
            (&raw mut self.source_port).write_volatile(NONE);
            (&raw mut self.destination_port).write_volatile(NONE);
        }
    }

    /// Notes that the protocol has no flags, likewise.
    #[inline(always)]
    pub fn set_no_flags(&mut self) {
        // SAFETY: as above.
        unsafe { (&raw mut self.flags).write_volatile(NONE) };
    }

    /// Whether it is the first segment of a TCP connection: SYN without ACK. [`NONE`] and [`ANY`] have both bits.
    #[inline(always)]
    pub fn opens_connection(&self) -> bool {
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        self.flags & (SYN | ACK) == SYN
    }

    /// The port that is part of keys: 0 if there is none, or it cannot be seen.
    #[inline(always)]
    pub fn key_port(&self) -> u16 {
        if self.destination_port >= NONE {
            0
        } else {
            self.destination_port as u16
        }
    }
}
