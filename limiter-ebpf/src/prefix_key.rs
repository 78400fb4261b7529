//! Keys of lookups by address.

use aya_ebpf::btf_maps::lpm_trie::Key;
use limiter_common::table::key::Address;

/// An address, or the beginning of one, as the key of a lookup.
#[repr(C)]
pub struct PrefixKey<const WORDS: usize> {
    bits: u32,
    address: [u32; WORDS],
}

impl<const WORDS: usize> PrefixKey<WORDS> {
    /// Copies word by word: LLVM would copy eight bytes at a time, and the verifier requires these to be aligned on the
    /// stack.
    #[inline(always)]
    pub fn new(source: &Address) -> Self {
        let mut key = Self {
            bits: 0,
            address: [0; WORDS],
        };
        // SAFETY: fields of a local value, and as many words as either address has.
        unsafe {
            (&raw mut key.bits).write_volatile(WORDS as u32 * u32::BITS);
            let (words, place) = (
                (&raw const source.words).cast::<u32>(),
                (&raw mut key.address).cast::<u32>(),
            );
            for index in 0..WORDS {
                place.add(index).write_volatile(words.add(index).read());
            }
        }
        key
    }

    /// The key of a lookup.
    #[inline(always)]
    pub fn key(&self) -> &Key<[u32; WORDS]> {
        // SAFETY: the same fields, and `Key` is packed: no alignment is asked for.
        unsafe { &*(&raw const *self).cast() }
    }
}

impl PrefixKey<4> {
    /// The IPv6 form of an IPv4 address.
    #[inline(always)]
    pub fn mapped(source: &Address) -> Self {
        let mut key = Self {
            bits: 0,
            address: [0; 4],
        };
        // SAFETY: fields of a local value, and the first word of the address.
        unsafe {
            (&raw mut key.bits).write_volatile(128);
            let address = (&raw mut key.address).cast::<u32>();
            let word = (&raw const source.words).cast::<u32>().read();
            for (index, part) in [0, 0, 0xffff_u32.to_be(), word].into_iter().enumerate() {
                address.add(index).write_volatile(part);
            }
        }
        key
    }

    /// Looks for prefixes of at most this length from now on.
    #[inline(always)]
    pub fn shorten(&mut self, bits: u32) {
        // SAFETY: a field of a local value.
        unsafe { (&raw mut self.bits).write_volatile(bits) };
    }
}
