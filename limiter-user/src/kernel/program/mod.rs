//! The BPF program and its maps: loaded, filled, read.

pub mod lists;
pub mod maps;
pub mod object;
pub mod raw;
mod table;
