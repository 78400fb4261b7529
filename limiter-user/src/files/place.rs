//! The folders of limiter's own files: a lasting one below `/var/lib/limiter`, and one below `/run/limiter`.
//!
//! The number of a network namespace is valid only until the host restarts, and so are the files of all but that of
//! process 1.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, anyhow};
use limiter_kernel::state::pins;
use nix::unistd::geteuid;

use super::Folder;

/// A folder of files that are named by interfaces.
#[derive(Debug)]
pub(crate) struct Place {
    base: PathBuf,
    names: Vec<&'static str>,
}

impl Place {
    /// The folder of files that outlive a restart of the host.
    pub(crate) fn lasting(name: &'static str) -> Result<Self> {
        match pins::namespace()? {
            None => Self::below("/var/lib", "STATE_DIRECTORY", name),
            Some(_) => Self::passing(name),
        }
    }

    /// The folder of files until the host restarts.
    pub(crate) fn passing(name: &'static str) -> Result<Self> {
        Self::below("/run", "RUNTIME_DIRECTORY", name)
    }

    /// The folder of files for the next start of the host: that of the service manager, or the lasting one. None where
    /// nothing lasts until then.
    pub(crate) fn for_next_start(name: &'static str) -> Result<Option<Self>> {
        let value = env::var("STATE_DIRECTORY").unwrap_or_default();
        match value.split(':').next() {
            Some(first) if !first.is_empty() => Ok(Some(Self {
                base: first.into(),
                names: vec![name],
            })),
            _ if geteuid().is_root() && pins::namespace()?.is_none() => {
                Self::lasting(name).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn below(base: &str, variable: &str, name: &'static str) -> Result<Self> {
        if geteuid().is_root() {
            return Ok(Self {
                base: base.into(),
                names: vec!["limiter", name],
            });
        }
        let value = env::var(variable).unwrap_or_default();
        match value.split(':').next() {
            Some(first) if !first.is_empty() => Ok(Self {
                base: first.into(),
                names: vec![name],
            }),
            _ => Err(anyhow!(
                "{base}/limiter/{name} is root's alone: run it with sudo, or set {variable} to a folder of user {}",
                geteuid()
            )),
        }
    }

    /// The folder `name` in this one.
    pub(crate) fn inner(&self, name: &str) -> std::io::Result<Folder> {
        let names = self.names.iter().copied().chain([name]);
        Folder::make(&self.base, &names.collect::<Vec<_>>())
    }

    /// Opens the folder, and makes it if it is missing.
    pub(crate) fn make(&self) -> std::io::Result<Folder> {
        Folder::make(&self.base, &self.names)
    }

    /// Opens the folder; none if it does not exist.
    pub(crate) fn open(&self) -> std::io::Result<Option<Folder>> {
        Folder::open(&self.base, &self.names)
    }
}

/// The name of an interface's files, which is that of its pins.
pub(crate) fn name_of(interface: &str) -> Result<String> {
    let pins = pins::directory(interface)?;
    let name = pins.file_name().and_then(|name| name.to_str());
    Ok(name.context("an interface has a name")?.to_owned())
}
