//! The packet's path, one file a step. Two ways: [`plain`] for one limit that holds every packet, and
//! [`several`] for all else. [`packet`], read by `limiter_common::policy` → ([`lists`] → [`limits`], with what
//! they know of a packet in [`facts`]) → [`bucket`], with its [`newcomers`], [`table`], [`room`] and [`entry`] →
//! [`connection`], which asks the host's [`sockets`] → [`verdict`] → [`watch`] → [`counters`]. A file calls only
//! files that come later on that way (but `connection` and `watch`, which read a packet once more), and the tools
//! below it: [`terms`], [`clock`] (which a test's packets carry in front of them), [`config`],
//! [`maps`], [`atomic`].
#![no_std]
#![feature(asm_experimental_arch)]

pub mod plain;
pub mod several;

pub mod packet;

pub mod facts;

pub mod lists;

pub mod limits;

pub mod bucket;
pub mod newcomers;
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
pub mod terms;
