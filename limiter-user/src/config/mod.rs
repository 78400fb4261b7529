//! Configuration: what is written → what is meant → what the kernel gets.
//!
//! Knows nothing of aya, maps or interfaces.

pub mod burst;
pub mod compile;
pub mod connection;
pub mod difference;
pub mod file;
pub mod key;
pub mod lists;
pub mod matches;
pub mod number;
pub mod rate;
pub mod settings;
pub mod terms;

pub use burst::Burst;
pub use key::Key;
pub use lists::Lists;
pub use matches::Match;
pub use rate::{Rate, Unit};
pub use settings::{Algorithm, Exempt, Limit, Malformed, Mode, NewSources, Settings};

/// A value that cannot be used, and why. Ends with what to write instead.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
