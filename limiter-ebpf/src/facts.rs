//! What several limits and lists want to know of a packet, and what they have made of it so far.

use core::mem::MaybeUninit;

use limiter_common::{
    policy::PacketInfo,
    rules::{ANY, WHOLE},
};

/// The functions that the verifier checks by themselves get it by pointer.
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
    /// What has been parsed of it.
    pub info: PacketInfo,
    /// Lists that decide about its source.
    pub lists: u32,
    /// Index of the limit that refused it.
    pub refused_by: u8,
    /// What that said.
    pub refused: u8,
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
            ($($field:ident$(.$inner:ident)*$([$index:literal])?: $value:expr),+ $(,)?) => {
                // SAFETY: fields of the place, which is aligned.
                unsafe { $((&raw mut (*facts).$field$(.$inner)*$([$index])?).write_volatile($value);)+ }
            };
        }
        write! {
            now: 0, length: length, matching: 0, charged: 0, would_drop: 0, new: 0,
            info.source.words[0]: 0, info.source.words[1]: 0,
            info.source.family: 0, info.source.reserved: 0,
            info.protocol: ANY, info.flags: ANY, info.source_port: ANY, info.destination_port: ANY,
            info.fragment: WHOLE, info.control: 0,
            lists: 0, refused_by: 0, refused: 0, counted: 0, paid: 0,
        }
        // SAFETY: every field is written.
        unsafe { &mut *facts }
    }
}
