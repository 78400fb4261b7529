//! Values of keys: how they are read, printed in a file, and said in words.

use std::path::PathBuf;

use toml::de::DeValue;

use super::{
    print::{self, array},
    section::Section,
    value::{Read, Wrong, boolean, number, text},
};
use crate::{NONE, Text, number::count};

/// A value of a key: a scalar, an array, or a table.
pub trait Setting: Sized {
    /// Reads the value of `key`. `None` if there is none, or it has a mistake, which is reported.
    fn read(section: &mut Section, key: &str) -> Option<Self>;

    /// The value as in a file; `None` if no text stands for it.
    fn written(&self) -> Option<String>;

    /// The value in words.
    fn words(&self) -> String;
}

/// A value without parts.
pub trait Scalar: Sized {
    /// Reads the value.
    fn read_scalar(value: &DeValue) -> Read<Self>;

    /// The value as in a file.
    fn scalar(&self) -> String;

    /// The value in words.
    fn scalar_words(&self) -> String {
        self.scalar()
    }
}

impl<T: Scalar> Setting for T {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        section.read(key, T::read_scalar)
    }

    fn written(&self) -> Option<String> {
        Some(self.scalar())
    }

    fn words(&self) -> String {
        self.scalar_words()
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        T::read(section, key).map(Some)
    }

    fn written(&self) -> Option<String> {
        self.as_ref().and_then(T::written)
    }

    fn words(&self) -> String {
        self.as_ref().map_or(NONE.to_owned(), T::words)
    }
}

/// One value, or an array of at least one: an empty array would mean everything.
impl<T: Scalar> Setting for Vec<T> {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        let read = section.each(key, element)?;
        if read.is_empty() {
            section.refuse_empty(key);
            return None;
        }
        Some(read)
    }

    fn written(&self) -> Option<String> {
        let mut written: Vec<_> = self.iter().map(T::scalar).collect();
        match written.len() {
            0 | 1 => written.pop(),
            _ => Some(array(written)),
        }
    }

    fn words(&self) -> String {
        let words: Vec<_> = self.iter().map(T::scalar_words).collect();
        match words.is_empty() {
            true => NONE.to_owned(),
            false => words.join(","),
        }
    }
}

/// Reads one of several values. A number stands for its digits: a list may be called 5.
fn element<T: Scalar>(value: &DeValue) -> Read<T> {
    match (T::read_scalar(value), value) {
        (Err(Wrong::Type), DeValue::Integer(_)) => {
            let digits = number(value, |digits| Ok::<_, String>(digits.to_owned()))?;
            T::read_scalar(&DeValue::String(digits.into()))
        }
        (read, _) => read,
    }
}

impl<T: Text> Scalar for T {
    fn read_scalar(value: &DeValue) -> Read<Self> {
        match T::IS_NUMBER {
            true => number(value, T::read),
            false => text(value, T::read),
        }
    }

    fn scalar(&self) -> String {
        self.written_text()
    }

    fn scalar_words(&self) -> String {
        self.shown()
    }
}

impl Scalar for bool {
    fn read_scalar(value: &DeValue) -> Read<Self> {
        boolean(value)
    }

    fn scalar(&self) -> String {
        self.to_string()
    }

    fn scalar_words(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Scalar for String {
    fn read_scalar(value: &DeValue) -> Read<Self> {
        text(value, str::parse)
    }

    fn scalar(&self) -> String {
        print::text(self)
    }

    fn scalar_words(&self) -> String {
        self.clone()
    }
}

impl Scalar for PathBuf {
    fn read_scalar(value: &DeValue) -> Read<Self> {
        text(value, str::parse)
    }

    fn scalar(&self) -> String {
        print::text(self.display())
    }
}

/// Reads numbers, which may have a suffix. Numbers beyond the type are beyond the key's bounds too, and become the
/// greatest of the type: so the message has the bounds.
macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Scalar for $type {
            fn read_scalar(value: &DeValue) -> Read<Self> {
                let count = number(value, count)?;
                Ok(Self::try_from(count).unwrap_or(Self::MAX))
            }

            fn scalar(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
numbers!(u8, u32, u64, usize);

/// Lets a type read and print fields of another type, whose value it holds.
#[macro_export]
macro_rules! read_as {
    ($($reader:ident: $type:ty),+) => {$(
        impl From<$type> for $reader {
            fn from(value: $type) -> Self {
                Self(value)
            }
        }

        impl From<$reader> for $type {
            fn from(reader: $reader) -> Self {
                reader.0
            }
        }
    )+};
}
