//! The differences between the settings in force and a file.

use serde::Serialize;

/// The changes that a reload of a file would make.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// Name of the interface.
    pub interface: String,
    /// Path of the file.
    pub file: String,
    /// One line for each change, as in `reload --dry-run`: the value in force, and that of the file.
    pub changes: Vec<String>,
}
