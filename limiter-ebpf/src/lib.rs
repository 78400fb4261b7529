//! The packet's path in the kernel: adapters of `limiter_common::policy` to packets, maps, clock and sockets.
//!
//! - [`packet`]: bytes of a packet; [`context`]: its size and its time, at the driver (XDP) or, with the feature `tc`, in
//!   the network stack
//! - [`fast`]: one limit that matches every packet; [`full`]: any other configuration
//! - [`engine`]: gives the policy [`lists`], [`table`] (with [`new_sources`], [`second_chance`], [`room`] and [`entry_place`]) and [`counters`]
//! - [`connection`]: looks a packet up among the host's [`sockets`]
//! - [`proof`]: answers packets of new sources ([`handshake`], [`question`]), by [`answering`], if the [`host`] would
//! - [`open`]: counts open connections
//! - [`watch`]: events of packets; [`log`]: messages
//! - [`past_quota`], [`switches`], [`clock`], [`constants`], [`maps`], [`atomic`]: used by all
//!
//! A file calls only later files of this list, except that `connection`, `watch` and `log` parse a packet again.
#![no_std]
#![feature(asm_experimental_arch)]

pub mod fast;
pub mod full;

#[cfg(not(feature = "tc"))]
#[path = "context/xdp.rs"]
pub mod context;
#[cfg(feature = "tc")]
#[path = "context/tc.rs"]
pub mod context;
pub mod packet;

pub mod engine;

pub mod bans;
pub mod list_lookup;
pub mod new_sources;
pub mod prefix_key;
pub mod room;
pub mod second_chance;
pub mod table;

pub mod entry_place;

#[cfg(not(feature = "tc"))]
pub mod answering;
pub mod connection;
#[cfg(not(feature = "tc"))]
pub mod handshake;
#[cfg(not(feature = "tc"))]
pub mod host;
pub mod open;
#[cfg(not(feature = "tc"))]
pub mod proof;
#[cfg(not(feature = "tc"))]
pub mod question;
pub mod sockets;

pub mod log;
pub mod watch;

// The macros of aya-log write to this crate: the map of aya-log-ebpf has the older form, which libbpf refuses.
extern crate self as aya_log_ebpf;
#[doc(hidden)]
pub use log::macro_support;

pub mod counters;

pub mod atomic;
pub mod clock;
pub mod constants;
pub mod maps;
pub mod past_quota;
pub mod switches;

pub(crate) use constants::{constants, lent, read};

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
