//! Types that consist of integers, without padding.

/// A type with a value of zeros, for constants: they cannot call `Default`, which long arrays do not have. User space
/// copies such types bytewise. So only this crate implements it: for integers, arrays, and by `pod!`.
pub trait Pod: Sized + sealed::Sealed {
    /// All fields are 0.
    const ZEROS: Self;
}

pub(crate) mod sealed {
    pub trait Sealed {}

    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl<T: super::Pod, const LENGTH: usize> Sealed for [T; LENGTH] {}
}

impl Pod for u8 {
    const ZEROS: Self = 0;
}

impl Pod for u32 {
    const ZEROS: Self = 0;
}

impl Pod for u64 {
    const ZEROS: Self = 0;
}

impl<T: Pod, const LENGTH: usize> Pod for [T; LENGTH] {
    const ZEROS: Self = [T::ZEROS; LENGTH];
}

/// Implements [`Pod`] for a type with these fields. Asserts at compile time that it has exactly their bytes.
macro_rules! pod {
    ($type:ident: $($field:tt)+) => {
        impl $crate::pod::sealed::Sealed for $type {}
        impl $crate::pod::Pod for $type {
            const ZEROS: Self = Self { $($field: $crate::pod::Pod::ZEROS),+ };
        }
        const _: () = {
            let zeros = <$type as $crate::pod::Pod>::ZEROS;
            assert!(size_of::<$type>() == 0 $(+ size_of_val(&zeros.$field))+);
        };
    };
}
pub(crate) use pod;
