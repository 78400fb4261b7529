//! The programs of the benchmark, in one object.
#![no_std]
#![no_main]

mod steps;
mod wire;

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
