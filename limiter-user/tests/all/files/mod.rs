//! Files and settings for the properties of the configuration file.

pub mod changes;
pub mod draw;
