//! Configurations, for programs.

use serde::Serialize;

/// The output of `config check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedFile {
    /// The file; `standard input` for `-`.
    pub file: String,
    /// True if the file has no mistakes.
    pub valid: bool,
    /// Number of limits; null if the file has mistakes.
    pub limits: Option<u64>,
    /// Number of prefixes on all lists; null if the file has mistakes.
    pub prefixes: Option<u64>,
    /// The mistakes.
    pub mistakes: Vec<MistakeInFile>,
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MistakeInFile {
    /// The line; the first is 1.
    pub line: u64,
    /// The mistake, its reason, and what to write.
    pub text: String,
}

/// The output of `config show --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingsInForce {
    /// Name of the interface.
    pub interface: String,
    /// The settings: keys and values of a configuration file, see limiter.toml(5).
    pub settings: serde_json::Value,
}

/// The output of `learn --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProposedFile {
    /// Name of the interface; null for a capture.
    pub interface: Option<String>,
    /// The proposed configuration file, with the reasons in comments.
    pub file: String,
    /// The settings of this file.
    pub settings: serde_json::Value,
}

/// The output of `preset --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PresetFiles {
    /// All presets, or the one that was asked for.
    pub presets: Vec<PresetFile>,
}

/// A preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PresetFile {
    /// Name of the preset.
    pub name: String,
    /// Its purpose.
    pub summary: String,
    /// The configuration file, with the explanation in comments.
    pub file: String,
}
