//! Two columns, words or fields that are one entry.

use crate::format::Format;

/// Two columns that may belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// The first and the last address of a range.
    Ends,
    /// An address and the length of its network.
    Network,
}

impl Pair {
    /// The two parts in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ends => "the ends of ranges",
            Self::Network => "addresses and the lengths of their networks",
        }
    }

    /// The format that reads it.
    pub fn format(self) -> Format {
        match self {
            Self::Ends => Format::Ranges,
            Self::Network => Format::Networks,
        }
    }
}
