//! Everything that talks to the kernel: the only place that knows aya, bpffs and netlink.

pub mod attach;
pub mod attachment;
pub mod before;
pub mod bpffs;
pub mod chain;
pub mod clock;
pub mod detach;
pub mod error;
pub mod foreign;
pub mod interface;
pub mod learn;
pub mod link;
pub mod lists;
pub mod log;
pub mod maps;
pub mod memory;
mod netlink_xdp;
pub mod object;
pub mod pins;
pub mod record;
pub mod replay;
pub mod requirements;
pub mod session;
pub mod set;
mod sound;
pub mod survey;
pub mod sys;
mod table;
pub mod trial;
pub mod watch;
pub mod wire;
mod words;

pub use attachment::Attachment;
pub use error::Error;
