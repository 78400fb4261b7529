//! Values as text: how they are read and shown, and what is said about one that cannot be used.

use crate::reader::quoted;

/// A value that users write as text: in files, on the command line, in JSON.
pub trait Text: Sized {
    /// True if files may have a bare number too.
    const IS_NUMBER: bool = false;

    /// Reads a value.
    fn read(text: &str) -> Result<Self, Invalid>;

    /// The text that is read as this value.
    fn shown(&self) -> String;

    /// The value as in a file.
    fn written_text(&self) -> String {
        let shown = self.shown();
        let number = shown.parse::<u64>().map(|number| number.to_string());
        match Self::IS_NUMBER && number.as_ref() == Ok(&shown) {
            true => shown,
            false => quoted(shown),
        }
    }
}

/// Reads and writes types everywhere by their [`Text`].
macro_rules! as_text {
    ([$($parameter:tt)*] $type:ty) => {
        impl<$($parameter)*> std::str::FromStr for $type {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Text::read(text)
            }
        }

        impl<$($parameter)*> std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.shown())
            }
        }

        impl<$($parameter)*> TryFrom<String> for $type {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                Text::read(&text)
            }
        }

        impl<$($parameter)*> From<$type> for String {
            fn from(value: $type) -> Self {
                value.shown()
            }
        }
    };
    ($($type:ty),+) => {$(
        as_text!([] $type);
    )+};
}
pub(crate) use as_text;

/// The word for no value.
pub const NONE: &str = "none";

/// A value, or the word [`NONE`].
#[derive(Clone, Copy, Debug)]
pub struct OrNone<T>(pub Option<T>);

impl<T: Text> Text for OrNone<T> {
    const IS_NUMBER: bool = T::IS_NUMBER;

    fn read(text: &str) -> Result<Self, Invalid> {
        match text {
            NONE => Ok(Self(None)),
            text => T::read(text).map(|value| Self(Some(value))),
        }
    }

    fn shown(&self) -> String {
        self.0.as_ref().map_or(NONE.to_owned(), T::shown)
    }
}

impl<T> From<Option<T>> for OrNone<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T> From<OrNone<T>> for Option<T> {
    fn from(value: OrNone<T>) -> Self {
        value.0
    }
}

as_text!([T: Text] OrNone<T>);

/// A value that cannot be used. The message has the reason, and ends with what to write instead.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}", on_one_line(.0))]
pub struct Invalid(pub String);

/// An [`Invalid`] with a formatted message.
#[macro_export]
macro_rules! invalid {
    ($($message:tt)+) => {
        $crate::Invalid(format!($($message)+))
    };
}
/// Fails with [`Invalid`] unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::invalid!($($message)+));
        }
    };
}
pub(crate) use ensure;

/// Escapes every character that does not print, unless `keep` accepts it. These are control characters, and Unicode's
/// formatting characters, by which a name could reverse a message or hide a part of it.
pub fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if keep(c) || prints(c) {
            escaped.push(c);
        } else {
            escaped.extend(c.escape_default());
        }
    }
    escaped
}

/// Returns true if a character is visible on its own. A combining accent counts as visible.
fn prints(c: char) -> bool {
    let mut pair = [b'a', 0, 0, 0, 0];
    let length = c.encode_utf8(&mut pair[1..]).len();
    let pair = str::from_utf8(&pair[..=length]).unwrap_or_default();
    matches!(c, '\'' | '"') || pair.escape_debug().nth(1) == Some(c)
}

/// Makes one line of a message, of some 600 characters at most. Quoted text may be long and have any content. The
/// middle is cut, because the mistake is at the beginning and the advice at the end.
pub fn on_one_line(message: &str) -> String {
    const LONGEST: usize = 600;
    let line = escape(message, |_| false);
    let count = line.chars().count();
    if count <= LONGEST {
        return line;
    }
    let front: String = line.chars().take(LONGEST / 2).collect();
    let back: String = line.chars().skip(count - LONGEST / 2).collect();
    format!("{front} … {back}")
}
