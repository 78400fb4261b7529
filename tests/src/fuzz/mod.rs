//! Fuzz targets: a function of bytes for each kind of external input. Each target also checks the result of reading.
//!
//! `cargo xtask fuzz` runs them guided by coverage (`fuzz/`); `tests/fuzz_corpus.rs` runs them on the inputs in
//! `fixtures/fuzz`, which include all inputs that have found a bug.

mod capture;
mod configuration;
mod feed;
mod list;
mod message;
mod pins;
mod record;
mod request;
mod values;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, and of the folder with its inputs.
    pub name: &'static str,
    /// Panics if a check fails.
    pub run: fn(&[u8]),
    /// True if the target runs the program in the kernel.
    pub kernel: bool,
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target::new("capture", capture::run),
    Target::new("configuration", configuration::run),
    Target::new("feed", feed::run),
    Target::new("list", list::run),
    Target {
        kernel: true,
        ..Target::new("pins", pins::run)
    },
    Target::new("record", record::run),
    Target::new("request", request::run),
    Target::new("values", values::run),
];

impl Target {
    const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self {
            name,
            run,
            kernel: false,
        }
    }

    /// The target with this name.
    pub fn named(name: &str) -> Self {
        let found = TARGETS.into_iter().find(|target| target.name == name);
        found.unwrap_or_else(|| panic!("{name} is not fuzzed"))
    }

    /// The files with the target's inputs.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/fuzz")
            .join(self.name);
        let files =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}
