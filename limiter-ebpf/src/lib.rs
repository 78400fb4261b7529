//! The packet's path in the kernel: adapters of `limiter_common::policy` to packets, maps, clock and sockets. Two
//! paths: [`fast`] for one limit that matches every packet, and [`full`] for all else. [`packet`] → [`fast`] or
//! [`full`] → [`engine`], which gives the policy its [`lists`], its [`table`] with [`new_sources`], [`room`] and
//! [`entry`], and [`counters`] → [`connection`], which asks the host's [`sockets`] → [`verdict`] → [`watch`]. A file
//! calls only files that come later on that way (but `connection` and `watch`, which read a packet once more), and the
//! tools below it: [`quota`], [`clock`] (which a test's packets carry in front of them), [`config`], [`maps`],
//! [`atomic`].
#![no_std]
#![feature(asm_experimental_arch)]

pub mod fast;
pub mod full;

pub mod packet;

pub mod engine;

pub mod lists;
pub mod new_sources;
pub mod room;
pub mod table;

pub mod entry;

pub mod connection;
pub mod sockets;

pub mod verdict;

pub mod watch;

pub mod counters;

pub mod atomic;
pub mod clock;
pub mod config;
#[cfg(feature = "log")]
mod log;
pub mod maps;
pub mod quota;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
