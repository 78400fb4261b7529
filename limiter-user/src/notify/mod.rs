//! `limiter notify`: what has begun or ended on the interfaces, told to a program or a URL.

pub mod deliver;
pub mod watch;
