//! `RECORD.toml`: the sources and the tools of the committed objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    digest::digests,
    flags, objects, paths,
    toolchain::{COMMIT, VERSION},
    tools::{LINKER, Tools},
};

const HEADER: &str = "# Written by `cargo xtask build-ebpf`. Not to be edited.\n\n";

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub struct Record {
    cargo: Vec<String>,
    flags: Vec<String>,
    rustc: Tool,
    pub bpf_linker: Tool,
    /// SHA-256 of each source, by path relative to the root of the repository.
    sources: BTreeMap<String, String>,
    /// SHA-256 of each object, by file name.
    objects: BTreeMap<String, String>,
}

/// The properties of a tool that determine the bytes of the objects.
#[derive(PartialEq, Serialize, Deserialize)]
pub struct Tool {
    version: String,
    /// The release's commit, for rustc.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// The LLVM that the tool uses.
    pub llvm: String,
}

impl Record {
    /// Writes the record for the sources and objects in the tree, built with `tools`.
    pub fn write(tools: &Tools) -> Result<()> {
        let record = Self::of_tree(&tools.rust.llvm, &tools.llvm)?;
        let text = format!("{HEADER}{}", toml::to_string_pretty(&record)?);
        fs::write(path(), text).with_context(|| format!("cannot write {}", path().display()))
    }

    fn of_tree(rustc_llvm: &str, linker_llvm: &str) -> Result<Self> {
        Ok(Self {
            cargo: flags::CARGO.map(String::from).into(),
            flags: flags::recorded(),
            rustc: Tool {
                version: VERSION.into(),
                commit: Some(COMMIT.into()),
                llvm: rustc_llvm.into(),
            },
            bpf_linker: Tool {
                version: LINKER.1.into(),
                commit: None,
                llvm: linker_llvm.into(),
            },
            sources: digests(&objects::SOURCES.map(String::from), &paths::root())?,
            objects: digests(&objects::files(), &paths::prebuilt())?,
        })
    }

    /// Reads the committed record.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(path()).map_err(anyhow::Error::from);
        let record = text.and_then(|text| Ok(toml::from_str(&text)?));
        record.with_context(|| {
            let path = path();
            format!(
                "cannot read {}: run: cargo xtask build-ebpf",
                path.display()
            )
        })
    }

    /// The differences between the tree and this record, by name. The tools may not be here, so their LLVM is not
    /// compared.
    pub fn differences(&self) -> Result<Vec<String>> {
        let present = Self::of_tree(&self.rustc.llvm, &self.bpf_linker.llvm)?;
        let mut names = Vec::new();
        if (&self.cargo, &self.flags) != (&present.cargo, &present.flags) {
            names.push("flags".to_owned());
        }
        if (&self.rustc, &self.bpf_linker) != (&present.rustc, &present.bpf_linker) {
            names.push("tools".to_owned());
        }
        for (recorded, present) in [
            (&self.sources, &present.sources),
            (&self.objects, &present.objects),
        ] {
            let all: BTreeSet<_> = recorded.keys().chain(present.keys()).collect();
            let differs = |name: &&String| recorded.get(*name) != present.get(*name);
            names.extend(all.into_iter().filter(differs).cloned());
        }
        Ok(names)
    }
}

fn path() -> PathBuf {
    paths::prebuilt().join("RECORD.toml")
}
