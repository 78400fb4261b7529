//! Debian's kernels: downloaded by a package manager with lists of its own, and unpacked as far as needed. Nothing is
//! installed, and the machine's own lists of packages stay as they are.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::releases::Release;
use crate::{
    apt::Apt,
    paths,
    process::{output, progress, run},
};

/// What depends on the current kernel of a suite: that for virtual machines, which is the smallest.
const META: &str = "linux-image-cloud-amd64";
/// Parts of a kernel: before Linux 7 all is in the first one.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];
/// Drivers that the tests want, in the order in which they are loaded.
const MODULES: [&str; 1] = ["veth"];

/// A kernel that is here.
pub struct Kernel {
    /// What it is called on the command line, and whether limiter runs on it.
    pub release: &'static Release,
    /// What boots.
    pub image: PathBuf,
    /// Its drivers.
    pub modules: Vec<PathBuf>,
}

/// The kernel of `release`, downloaded where it is not here yet. Delete its folder in `paths::kernels` for a newer one.
pub fn kernel(release: &'static Release) -> Result<Kernel> {
    let folder = paths::kernels().join(release.name);
    if !folder.exists() {
        let downloaded = paths::scratch()?;
        download(release, downloaded.path())?;
        unpack(downloaded.path(), &folder)?;
    }
    Ok(Kernel {
        release,
        image: folder.join("vmlinuz"),
        modules: MODULES.map(|name| folder.join(format!("{name}.ko"))).into(),
    })
}

fn download(release: &Release, folder: &Path) -> Result<()> {
    progress(&format!("looking for Debian's kernel {}", release.name));
    let apt = Apt::new(
        &paths::kernels().join("apt").join(release.name),
        release.suites,
    )?;
    let (version, kernel) = newest(&apt)?;
    let parts: Vec<String> = PARTS
        .iter()
        .map(|part| format!("{part}{kernel}={version}"))
        .filter(|part| apt.knows(part))
        .collect();
    progress(&format!("downloading {}", parts.join(" ")));
    apt.download(&parts, folder)
}

/// The newest version of the kernel, and what the kernel calls itself.
fn newest(apt: &Apt) -> Result<(String, String)> {
    let shown = apt.shown(META)?;
    let mut newest: Option<(String, String)> = None;
    for (version, kernel) in versions(&shown) {
        let newer = newest
            .as_ref()
            .is_none_or(|(found, _)| is_newer(&version, found));
        if newer {
            newest = Some((version, kernel));
        }
    }
    newest.with_context(|| format!("Debian's mirror has no {META} there"))
}

fn is_newer(version: &str, than: &str) -> bool {
    let mut compare = Command::new("dpkg");
    compare.args(["--compare-versions", version, "gt", than]);
    compare.status().is_ok_and(|status| status.success())
}

/// Each version of the package, with the name of the kernel that it depends on.
fn versions(shown: &str) -> Vec<(String, String)> {
    let field = |stanza: &str, name: &str| {
        let mut lines = stanza.lines();
        lines.find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    let stanzas = shown.split("\n\n").filter_map(|stanza| {
        let version = field(stanza, "Version:")?;
        let depends = field(stanza, "Depends:")?;
        let mut packages = depends.split([',', ' ', '|']);
        let kernel = packages.find_map(|package| {
            let kernel = package.strip_prefix("linux-image-")?;
            kernel
                .starts_with(|c: char| c.is_ascii_digit())
                .then(|| kernel.to_owned())
        })?;
        Some((version, kernel))
    });
    stanzas.collect()
}

/// What boots, and the drivers, out of the packages in `packages`.
fn unpack(packages: &Path, folder: &Path) -> Result<()> {
    let tree = paths::scratch()?;
    for package in fs::read_dir(packages)? {
        let mut extract = Command::new("dpkg-deb");
        run(extract
            .arg("--extract")
            .args([&package?.path(), tree.path()]))?;
    }
    // Elsewhere first: half a kernel must not pass for one.
    let new = folder.with_extension("new");
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new)?;
    fs::copy(find(tree.path(), "vmlinuz")?, new.join("vmlinuz"))?;
    for name in MODULES {
        let module = find(tree.path(), &format!("{name}.ko"))?;
        let whole = match module.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => decompressed("xz", &module)?,
            Some("zst") => decompressed("zstd", &module)?,
            _ => fs::read(&module)?,
        };
        fs::write(new.join(format!("{name}.ko")), whole)?;
    }
    fs::rename(new, folder).context("cannot keep the kernel")
}

/// The file below `folder` whose name begins like this.
fn find(folder: &Path, start: &str) -> Result<PathBuf> {
    let mut find = Command::new("find");
    find.arg(folder)
        .args(["-type", "f", "-name", &format!("{start}*")]);
    let found = output(&mut find)?;
    let first = found.lines().next().map(PathBuf::from);
    first.with_context(|| format!("Debian's kernel has no {start}"))
}

fn decompressed(program: &str, file: &Path) -> Result<Vec<u8>> {
    let output = Command::new(program).args(["-dc"]).arg(file).output();
    let output = output.with_context(|| format!("{program} is needed: install it"))?;
    if !output.status.success() {
        bail!("{program} cannot read {}", file.display());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::versions;

    #[test]
    fn a_kernel_is_known_by_what_depends_on_it() {
        let shown = "Package: m\nVersion: 7.3.4-1\nDepends: linux-base-cloud-amd64 (= 7.3.4-1), linux-image-7.3.4+deb13-cloud-amd64 (= 7.3.4-1)\n\nPackage: m\nVersion: 5.10.2-1\nDepends: linux-image-5.10.0-3-cloud-amd64 (= 5.10.2-1)\n\nVersion: 1\n";
        let pair = |version: &str, kernel: &str| (version.to_owned(), kernel.to_owned());
        let wanted = [
            pair("7.3.4-1", "7.3.4+deb13-cloud-amd64"),
            pair("5.10.2-1", "5.10.0-3-cloud-amd64"),
        ];
        assert_eq!(versions(shown), wanted);
    }
}
