//! The policy: what is read of a packet, and what the limits make of it. One piece of code for the program in the
//! kernel and for `limiter replay`, generic over the bytes of a packet ([`Bytes`]).
//!
//! [`parse`] → [`transport`], with what they find in a [`PacketInfo`].

mod bytes;
mod info;
pub mod parse;
pub mod transport;

pub use bytes::Bytes;
pub use info::PacketInfo;
pub use parse::{Parsed, parse, read};
pub use transport::size_of_header;
