//! The installed files. All packages have the same files, except for one folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{paths, process::output};

/// Files of the repository, with their installed paths.
const FILES: [(&str, &str); 15] = [
    ("packaging/systemd/limiter@.service", UNITS),
    ("packaging/systemd/limiter-export.service", UNITS),
    ("packaging/systemd/limiter-notify.service", UNITS),
    ("packaging/systemd/limiter-agent.service", UNITS),
    ("packaging/systemd/limiter-adapt@.service", UNITS),
    ("packaging/systemd/limiter-feed@.service", UNITS),
    ("packaging/etc/limiter.toml", "etc/limiter"),
    ("packaging/fail2ban/limiter.conf", "etc/fail2ban/action.d"),
    ("README.md", DOCUMENTS),
    ("ARCHITECTURE.md", DOCUMENTS),
    ("CHANGELOG.md", DOCUMENTS),
    ("CONTRIBUTING.md", DOCUMENTS),
    ("KNOWN_ISSUES.md", DOCUMENTS),
    ("LICENSE-MIT", DOCUMENTS),
    ("LICENSE-APACHE", DOCUMENTS),
];
/// Folders to install with all files, with their installed paths.
const FOLDERS: [(&str, &str); 3] = [
    ("docs", "usr/share/doc/limiter/docs"),
    (
        "packaging/grafana",
        "usr/share/doc/limiter/packaging/grafana",
    ),
    (
        "packaging/prometheus",
        "usr/share/doc/limiter/packaging/prometheus",
    ),
];
const UNITS: &str = "usr/lib/systemd/system";
const DOCUMENTS: &str = "usr/share/doc/limiter";

/// A tree of files under `root`.
pub struct Tree {
    pub root: PathBuf,
}

impl Tree {
    /// Makes the tree in `root`, which must not exist. `zsh`: the folder in which the distribution looks for zsh's
    /// completions.
    pub fn make(root: PathBuf, binary: &Path, zsh: &str) -> Result<Self> {
        let tree = Self { root };
        tree.write("usr/bin/limiter", &read(binary)?, 0o755)?;
        let here = paths::root();
        let script = read(&here.join("packaging/systemd/service"))?;
        tree.write("usr/lib/limiter/service", &script, 0o755)?;
        let defaults = read(&here.join("packaging/etc/limiter.default"))?;
        tree.write("etc/default/limiter", &defaults, 0o644)?;
        for (from, folder) in FILES {
            let name = Path::new(from).file_name().unwrap_or_default();
            let to = Path::new(folder).join(name);
            tree.write(to, &read(&here.join(from))?, 0o644)?;
        }
        for (from, folder) in FOLDERS {
            for path in paths::files_in(&here.join(from))? {
                let name = path.strip_prefix(here.join(from))?;
                tree.write(Path::new(folder).join(name), &read(&path)?, 0o644)?;
            }
        }
        tree.completions(binary, zsh)?;
        tree.manual(binary)?;
        Ok(tree)
    }

    fn completions(&self, binary: &Path, zsh: &str) -> Result<()> {
        for (shell, to) in [
            ("bash", "usr/share/bash-completion/completions/limiter"),
            ("zsh", &format!("usr/share/zsh/{zsh}/_limiter")),
            ("fish", "usr/share/fish/vendor_completions.d/limiter.fish"),
        ] {
            let text = output(Command::new(binary).args(["completions", shell]))?;
            self.write(to, text.as_bytes(), 0o644)?;
        }
        Ok(())
    }

    /// Writes all manual pages, each into the folder of its section.
    fn manual(&self, binary: &Path) -> Result<()> {
        let pages = paths::scratch()?;
        let mut man = Command::new(binary);
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
