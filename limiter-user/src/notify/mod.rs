//! `limiter notify`: what has begun or ended on the interfaces, told to a program or a URL.

pub mod course;
pub mod deliver;
pub mod event;
mod explain;
pub mod format;
pub mod watch;

pub use explain::Explainer;
