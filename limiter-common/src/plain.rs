//! Types that consist of integers, without padding.

/// A type with a value of zeros, for constants: they cannot call `Default`, which long arrays do not have. User space
/// copies such types bytewise. So only this crate implements it: for integers, arrays, and by `plain!`.
pub trait Plain: Sized + sealed::Sealed {
    /// All fields are 0.
    const ZEROS: Self;
}

pub(crate) mod sealed {
    pub trait Sealed {}

    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl<T: super::Plain, const LENGTH: usize> Sealed for [T; LENGTH] {}
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
        impl $crate::plain::sealed::Sealed for $type {}
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
