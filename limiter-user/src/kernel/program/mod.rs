//! The BPF program and its maps: loading, filling, reading.

pub mod lists;
pub mod maps;
pub mod object;
pub mod raw;
mod table;
