//! `limiter explain`: the pattern of a flood, and a limit that holds it.
//!
//! [`shape`] has the fields of a packet as numbers, and [`sample`] a fair sample of packets. A [`picture`] is ordinary
//! traffic. [`search`] finds the [`condition`]s that tell the packets above the ordinary rate from ordinary ones, among
//! [`candidates`], by the [`gain`] of information. [`guard`] keeps protected packets out. [`report`] has the answer. These are pure functions of packets,
//! without the kernel and files; [`read`] takes packets of a capture.

pub mod candidates;
pub mod condition;
pub mod gain;
pub mod guard;
pub mod picture;
pub mod read;
pub mod report;
pub mod sample;
pub mod search;
pub mod shape;

pub use guard::Guard;
pub use picture::{KEPT_MAX, Picture};
pub use report::{Answer, Asked, Explanation, Pattern, Share, explain};
pub use sample::Sample;
pub use shape::Packet;
