//! What stands behind a header of any length, where the verifier forbids to add an unknown number to the address of
//! a packet (the program for processes without `CAP_PERFMON`): the kernel copies it (Linux 5.18).

use core::mem::MaybeUninit;

use aya_ebpf::{bindings::xdp_md, helpers::generated::bpf_xdp_load_bytes};

/// Bytes of the longest header that is read there.
const HEADER_MAX: usize = 16;

/// Reads headers at any distance from the front of the packet.
pub struct Rest {
    context: *mut xdp_md,
    offset: u32,
    header: MaybeUninit<[u64; HEADER_MAX / 8]>,
}

impl Rest {
    /// So many bytes behind the Ethernet header's first.
    #[inline(always)]
    pub fn new(context: *mut xdp_md, offset: u32) -> Self {
        Self {
            context,
            offset,
            header: MaybeUninit::uninit(),
        }
    }

    /// The header there, or nothing where the packet ends within it. `T` is plain bytes. The next look takes its
    /// place.
    #[inline(always)]
    pub fn peek<T>(&mut self) -> Option<*const T> {
        const { assert!(size_of::<T>() <= HEADER_MAX) };
        let header = self.header.as_mut_ptr();
        // SAFETY: there is room for so many bytes.
        let failed = unsafe {
            bpf_xdp_load_bytes(
                self.context,
                self.offset,
                header.cast(),
                size_of::<T>() as u32,
            )
        };
        (failed == 0).then_some(header.cast_const().cast())
    }

    /// Moves past so many bytes, whether the packet has them or not: the next look checks that.
    #[inline(always)]
    pub fn skip(&mut self, bytes: usize) {
        self.offset += bytes as u32;
    }
}
