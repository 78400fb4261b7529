//! Types of the program's constants and maps: integers, without padding.

/// A type with a value of zeros, for constants: `Default` cannot be called there, and has no long arrays. User space
/// copies such types bytewise: implement it only by `plain!`, which asserts that there is no padding.
pub trait Plain: Sized {
    /// All fields are 0.
    const ZEROS: Self;
}

impl Plain for u8 {
    const ZEROS: Self = 0;
}

impl Plain for u32 {
    const ZEROS: Self = 0;
}

impl Plain for u64 {
    const ZEROS: Self = 0;
}

impl<T: Plain, const LENGTH: usize> Plain for [T; LENGTH] {
    const ZEROS: Self = [T::ZEROS; LENGTH];
}

/// Implements [`Plain`] for a type with these fields. Asserts at compile time that it has exactly their bytes.
macro_rules! plain {
    ($type:ident: $($field:tt)+) => {
        impl $crate::plain::Plain for $type {
            const ZEROS: Self = Self { $($field: $crate::plain::Plain::ZEROS),+ };
        }
        const _: () = {
            let zeros = <$type as $crate::plain::Plain>::ZEROS;
            assert!(size_of::<$type>() == 0 $(+ size_of_val(&zeros.$field))+);
        };
    };
}
pub(crate) use plain;
