//! Lists of addresses and prefixes, in the forms in which they are published.
//!
//! [`read`] takes the bytes of a list and returns its entries, and everything that is no entry with the reason. A line
//! that is not understood whole is not understood: it becomes no entry. What a list with such lines is worth is for the
//! caller to decide. The crate reads no file and talks to no network.

mod address;
mod blocklists;
mod cells;
mod documents;
mod entries;
mod error;
mod fields;
mod find;
mod format;
mod header;
mod ipset;
mod json;
mod lines;
mod list;
mod nft;
mod nft_words;
mod pair;
mod pairs;
mod plain;
mod range;
mod reason;
mod refused;
mod rows;
mod sets;
mod table;
mod unpack;
mod values;

pub use entries::Entries;
pub use error::Error;
pub use find::read;
pub use format::{Format, Unknown};
pub use list::{Entry, Example, LeftOut, List, Place};
pub use range::Range;
pub use reason::Reason;
pub use unpack::Packed;

/// Options for reading a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format. None: it is found by the list itself.
    pub format: Option<Format>,
    /// The columns, paths or sets that have the addresses. Empty: they are found by the list itself.
    pub fields: Vec<String>,
    /// The most bytes, also after unpacking.
    pub max_size: u64,
}
