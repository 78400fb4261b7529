//! The private folder in which `limiter edit` has its text, and the editor.

use std::{
    env,
    fs::File,
    io::{self, Read as _},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context as _, Result, anyhow, bail};
use limiter_config::files::TEXT_MOST;
use nix::fcntl::{Flock, FlockArg};

use crate::files::{Folder, Place, name_of};

/// Variables with the user's editor, as sudo has them.
const VARIABLES: [&str; 3] = ["SUDO_EDITOR", "VISUAL", "EDITOR"];
/// Editors without a variable.
const USUAL: [&str; 3] = ["/usr/bin/editor", "/usr/bin/vi", "/usr/bin/nano"];
const TEXT: &str = "limiter.toml";
/// The text of an edit that was interrupted.
const INTERRUPTED: &str = "interrupted.toml";
const LOCK: &str = "lock";

/// The folder of an interface, while its configuration is edited.
#[derive(Debug)]
pub struct Workshop {
    folder: Folder,
    /// Only one process edits.
    _lock: Flock<File>,
    /// The folder stays, with the text.
    is_kept: bool,
}

impl Workshop {
    /// Opens the folder of an interface. Returns the path of a text that was left by an edit which was interrupted, too.
    pub fn open(interface: &str) -> Result<(Self, Option<PathBuf>)> {
        let folder = Place::passing("edit")?.inner(&name_of(interface)?)?;
        let lock = Flock::lock(folder.file(LOCK)?, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|_| {
            anyhow!(
                "another `limiter edit {interface}` runs, and nothing was changed: end it first"
            )
        })?;
        if let Ok(mut left) = folder.read(TEXT) {
            let mut text = Vec::new();
            left.read_to_end(&mut text)?;
            folder.replace(INTERRUPTED, &text)?;
        }
        let left = folder.read(INTERRUPTED).is_ok();
        let left = left.then(|| folder.path_of(INTERRUPTED));
        let workshop = Self {
            folder,
            _lock: lock,
            is_kept: false,
        };
        Ok((workshop, left))
    }

    /// Writes the text to edit.
    pub fn write(&self, text: &str) -> io::Result<()> {
        self.folder.replace(TEXT, text.as_bytes())
    }

    /// The edited text.
    pub fn read(&self) -> Result<String> {
        let file = self.folder.read(TEXT);
        let mut text = String::new();
        let read = file.and_then(|file| file.take(TEXT_MOST).read_to_string(&mut text));
        read.with_context(|| format!("{} cannot be read", self.path().display()))?;
        Ok(text)
    }

    /// The path of the text.
    pub fn path(&self) -> PathBuf {
        self.folder.path_of(TEXT)
    }

    /// Leaves the text there at the end, and returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.is_kept = true;
        self.path()
    }

    /// Runs the user's editor, and waits for it.
    pub fn edit(&self) -> Result<()> {
        let editor = editor()?;
        // A shell, because the variables may have options: `code --wait`.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{editor} \"$@\""), "editor"]);
        let status = command.arg(self.path()).status();
        let status =
            status.map_err(|error| anyhow!("{editor} cannot be started ({error}): set EDITOR"))?;
        if !status.success() {
            bail!("{editor} failed ({status}), and nothing was changed");
        }
        Ok(())
    }
}

impl Drop for Workshop {
    /// Removes the text, and what the editor has left beside it.
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let names = self.folder.names().unwrap_or_default();
        let others = names
            .iter()
            .filter(|name| ![LOCK, INTERRUPTED].contains(&name.as_str()));
        for name in others {
            // A file that stays is of root alone, and goes with a restart.
            let _ = self.folder.remove(name);
        }
    }
}

/// The command line of the user's editor.
fn editor() -> Result<String> {
    let set = VARIABLES.iter().filter_map(|name| env::var(name).ok());
    let mut set = set.filter(|value| !value.trim().is_empty());
    let usual = || USUAL.iter().find(|path| PathBuf::from(path).exists());
    set.next()
        .or_else(|| usual().map(|path| (*path).to_owned()))
        .ok_or_else(|| {
            anyhow!(
                "there is no editor, and nothing was changed: set EDITOR, as in `sudo EDITOR=nano limiter edit`"
            )
        })
}
