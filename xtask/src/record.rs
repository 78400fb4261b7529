//! `RECORD.toml`: the sources and the tools of the committed objects.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{digest::digests, flags, linker, objects, paths, toolchain, tools::Tools};

const HEADER: &str = "# Written by `cargo xtask build-ebpf`. Not to be edited.\n\n";

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// Arguments of cargo.
    pub cargo: Vec<String>,
    /// Flags of rustc.
    pub flags: Vec<String>,
    /// The compiler.
    pub rustc: Tool,
    /// The linker.
    pub bpf_linker: Tool,
    /// SHA-256 of each source, by path relative to the root of the repository.
    pub sources: BTreeMap<String, String>,
    /// SHA-256 of each object, by file name.
    pub objects: BTreeMap<String, String>,
}

/// The properties of a tool that determine the bytes of the objects.
#[derive(Serialize, Deserialize)]
pub struct Tool {
    /// The tool's release.
    pub version: String,
    /// The release's commit, for rustc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The LLVM that the tool uses.
    pub llvm: String,
}

impl Record {
    /// The record for the sources and objects in the tree, built with `tools`.
    pub fn of_tree(tools: &Tools) -> Result<Self> {
        Ok(Self {
            cargo: flags::CARGO.map(String::from).into(),
            flags: flags::recorded(),
            rustc: Tool {
                version: toolchain::VERSION.into(),
                commit: Some(toolchain::COMMIT.into()),
                llvm: tools.rust.llvm.clone(),
            },
            bpf_linker: Tool {
                version: linker::VERSION.into(),
                commit: None,
                llvm: tools.linker.llvm.clone(),
            },
            sources: digests(&objects::SOURCES.map(String::from), &paths::root())?,
            objects: digests(&objects::files(), &paths::prebuilt())?,
        })
    }

    /// Reads the committed record.
    pub fn read() -> Result<Self> {
        let path = Self::path();
        let text = fs::read_to_string(&path);
        let record = text
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(toml::from_str(&text)?));
        record.with_context(|| {
            format!(
                "cannot read {}: run: cargo xtask build-ebpf",
                path.display()
            )
        })
    }

    /// Writes the record beside the objects.
    pub fn write(&self) -> Result<()> {
        let path = Self::path();
        let text = format!("{HEADER}{}", toml::to_string_pretty(self)?);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The differences between the tree and this record, by name.
    pub fn differences(&self) -> Result<Vec<String>> {
        let sources = digests(&objects::SOURCES.map(String::from), &paths::root())?;
        let objects = digests(&objects::files(), &paths::prebuilt())?;
        let mut names = unequal(&self.sources, &sources);
        names.extend(unequal(&self.objects, &objects));
        let settings = [
            (
                "the pinned rustc",
                self.rustc.commit.as_deref() == Some(toolchain::COMMIT),
            ),
            (
                "the pinned bpf-linker",
                self.bpf_linker.version == linker::VERSION,
            ),
            ("the flags", self.flags == flags::recorded()),
            ("the cargo arguments", self.cargo == flags::CARGO),
        ];
        names.extend(
            settings
                .iter()
                .filter(|(_, same)| !same)
                .map(|(name, _)| (*name).into()),
        );
        Ok(names)
    }

    fn path() -> PathBuf {
        paths::prebuilt().join("RECORD.toml")
    }
}

/// The names with different values.
fn unequal(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .cloned()
        .collect()
}
