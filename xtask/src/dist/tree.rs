//! The installed files. All packages have the same files, except for one folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::binary::Binary;
use crate::{paths, process::output};

/// Files and folders of the repository, with the folders in which they are installed.
const FILES: &str = include_str!("../../../packaging/files.txt");

/// A tree of files under `root`.
pub struct Tree {
    pub root: PathBuf,
}

impl Tree {
    /// Makes the tree in `root`, which must not exist. `zsh`: the folder in which the distribution looks for zsh's
    /// completions.
    pub fn make(root: PathBuf, binary: &Binary, zsh: &str) -> Result<Self> {
        let tree = Self { root };
        tree.write("usr/bin/limiter", &read(&binary.file)?, 0o755)?;
        let here = paths::root();
        let script = read(&here.join("packaging/systemd/service"))?;
        tree.write("usr/lib/limiter/service", &script, 0o755)?;
        let defaults = read(&here.join("packaging/etc/limiter.default"))?;
        tree.write("etc/default/limiter", &defaults, 0o644)?;
        for (from, folder) in FILES.lines().filter_map(|line| line.split_once(';')) {
            let from = here.join(from);
            let above = from.parent().unwrap_or(&here);
            let files = match from.is_dir() {
                true => paths::files_in(&from)?,
                false => vec![from.clone()],
            };
            for file in files {
                let destination = Path::new(folder).join(file.strip_prefix(above)?);
                tree.write(destination, &read(&file)?, 0o644)?;
            }
        }
        tree.completions(binary, zsh)?;
        tree.manual(binary)?;
        Ok(tree)
    }

    fn completions(&self, binary: &Binary, zsh: &str) -> Result<()> {
        for (shell, destination) in [
            ("bash", "usr/share/bash-completion/completions/limiter"),
            ("zsh", &format!("usr/share/zsh/{zsh}/_limiter")),
            ("fish", "usr/share/fish/vendor_completions.d/limiter.fish"),
        ] {
            let text = output(binary.command().args(["completions", shell]))?;
            self.write(destination, text.as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Writes all manual pages, each into the folder of its section.
    fn manual(&self, binary: &Binary) -> Result<()> {
        let pages = paths::scratch()?;
        let mut man = binary.command();
        output(man.args(["man", "--folder"]).arg(pages.path()))?;
        for page in paths::files_in(pages.path())? {
            let section = page.extension().unwrap_or_default().to_string_lossy();
            let folder = Path::new("usr/share/man").join(format!("man{section}"));
            let path = folder.join(page.file_name().unwrap_or_default());
            self.write(&path, &fs::read(&page)?, 0o644)?;
            output(Command::new("gzip").arg("-9n").arg(self.root.join(&path)))?;
        }
        Ok(())
    }

    /// Writes a file with this mode, whatever the umask.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> Result<()> {
        let path = self.root.join(path);
        let written = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)?;
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            let folders = folder.ancestors();
            for folder in folders.take_while(|folder| folder.starts_with(&self.root)) {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            }
            Ok(())
        };
        written().with_context(|| format!("cannot write {}", path.display()))
    }

    /// The installed paths of all files, without the first slash, sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let files = paths::files_in(&self.root)?.into_iter();
        files
            .map(|path| Ok(path.strip_prefix(&self.root)?.display().to_string()))
            .collect()
    }

    /// The size of all files together, in bytes.
    pub fn size(&self) -> Result<u64> {
        let mut bytes = 0;
        for file in paths::files_in(&self.root)? {
            bytes += fs::metadata(file)?.len();
        }
        Ok(bytes)
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
