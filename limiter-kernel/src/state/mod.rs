//! Pins of an interface: the folder, the record of the configuration, the program that limiter runs in front of.

pub mod attachment;
pub mod current;
pub mod foreign;
pub(crate) mod generation;
pub mod occupant;
pub mod pins;
pub mod record;
pub(crate) mod stray;
pub(crate) mod survey;
pub(crate) mod unpin;
mod validate;
pub(crate) mod watchers;

pub use current::OnTrial;
pub use foreign::Foreign;
pub use pins::Folder;
pub use record::{Record, Trial};
pub(crate) use {
    current::Current,
    generation::Generation,
    survey::{Found, Pinned, Survey},
};
