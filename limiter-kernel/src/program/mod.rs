//! The BPF program and its maps: loading, filling, reading.

pub mod bans;
pub mod connections;
pub mod list_maps;
mod loader;
pub mod log;
pub mod maps;
pub mod object;
pub mod raw;
mod table;

pub use bans::Bans;
pub use connections::OpenTable;
pub use list_maps::ListTables;
pub use maps::Tables;
pub use object::{ListMaps, Maps, Program};
pub use raw::Raw;
