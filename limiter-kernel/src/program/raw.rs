//! Types of `limiter-common` as aya wants to see them.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use limiter_common::pod::Pod;

/// A value that is copied bytewise between the kernel and this process.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Raw<T>(pub T);

// SAFETY: only limiter-common implements `Pod`: for integers, arrays, and by a macro that asserts that there is no
// padding. So every byte is initialised, and every bit pattern is valid.
unsafe impl<T: Pod + Copy + 'static> aya::Pod for Raw<T> {}

impl<T: Pod> Raw<T> {
    /// The value's bytes.
    pub fn bytes(&self) -> &[u8] {
        let first = (&raw const *self).cast();
        // SAFETY: the bytes of a value without padding, which is borrowed for as long.
        unsafe { std::slice::from_raw_parts(first, size_of::<Self>()) }
    }

    /// The value that these bytes represent; `None` if there are too few.
    pub fn read(bytes: &[u8]) -> Option<T> {
        let bytes = bytes.get(..size_of::<Self>())?;
        // SAFETY: enough bytes are there, and every bit pattern of them is valid.
        let Self(value) = unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() };
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::abi::{
        counters::{Count, Counters},
        events::Event,
    };

    use super::*;

    /// Distinct bytes, so that none can be taken for another.
    fn bytes(count: usize) -> Vec<u8> {
        (1..=u8::MAX).cycle().take(count).collect()
    }

    #[test]
    fn values_are_read_at_any_alignment() {
        let size = size_of::<Count>();
        for start in 0..8 {
            let bytes = bytes(start + size);
            let word = |offset: usize| {
                let bytes = bytes[start + offset..].first_chunk().expect("eight bytes");
                u64::from_ne_bytes(*bytes)
            };
            let read = Raw::<Count>::read(&bytes[start..]).expect("bytes enough");
            assert_eq!((read.packets, read.bytes), (word(0), word(8)), "{start}");
        }
    }

    #[test]
    fn short_input_gives_no_value_and_extra_bytes_are_ignored() {
        let size = size_of::<Event>();
        for count in 0..size {
            assert!(Raw::<Event>::read(&bytes(count)).is_none(), "{count}");
        }
        assert!(Raw::<Event>::read(&bytes(size + 3)).is_some());
        assert!(Raw::<Counters>::read(&[0xff; size_of::<Counters>()]).is_some());
    }
}
