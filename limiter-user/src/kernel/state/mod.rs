//! Pins of an interface: the folder, the record of the configuration, the program that limiter runs in front of.

pub mod attachment;
pub mod current;
pub mod foreign;
pub(in crate::kernel) mod generation;
pub mod occupant;
pub mod pins;
pub mod record;
mod sound;
pub(in crate::kernel) mod survey;
pub(in crate::kernel) mod unpin;

pub use current::OnTrial;
pub use foreign::Foreign;
pub use pins::Folder;
pub use record::{Record, Trial};
pub(in crate::kernel) use {
    current::Current,
    generation::Generation,
    survey::{Found, Pinned, Survey},
};
