//! A value, or the word `none`.

use std::str::FromStr;

use super::{Invalid, NewSources, Rate};

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

impl OrNone<Rate> {
    /// The limit on new sources with this rate.
    pub fn with_burst(self, burst: Option<u64>) -> Option<NewSources> {
        self.0.map(|rate| NewSources {
            burst,
            ..NewSources::new(rate)
        })
    }
}
