//! The packet's path, one file a step: [`packet`] → [`parse`] → [`bucket`], with its [`table`] and
//! [`entry`] → [`verdict`] → [`counters`]. A file calls only files that come later on that way, and
//! the tools below it: [`terms`], [`clock`] (which a test's packets carry in front of them),
//! [`config`], [`maps`], [`atomic`].
#![no_std]
#![feature(asm_experimental_arch)]

pub mod packet;

pub mod parse;

pub mod bucket;
pub mod table;

pub mod entry;

pub mod verdict;

pub mod counters;

pub mod atomic;
pub mod clock;
pub mod config;
pub mod maps;
pub mod terms;
