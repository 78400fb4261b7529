//! A value, or the word `none`.

use std::str::FromStr;

use super::Invalid;

/// The word for no value.
pub const NONE: &str = "none";

/// A value, or the word `none`.
#[derive(Clone, Copy, Debug)]
pub struct OrNone<T>(pub Option<T>);

impl<T: FromStr<Err = Invalid>> FromStr for OrNone<T> {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == NONE {
            return Ok(Self(None));
        }
        text.parse().map(|value| Self(Some(value)))
    }
}
