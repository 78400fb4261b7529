//! Downloads Debian's kernels with a separate package manager configuration, and unpacks the needed files. Nothing is
//! installed, and the machine's own package lists do not change.

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

/// The package that depends on a suite's current kernel for virtual machines, which is the smallest kernel.
const META: &str = "linux-image-cloud-amd64";
/// The packages of a kernel. Before Linux 7, everything is in the first one.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];
/// Drivers that the tests need, in the order in which they are loaded.
const MODULES: [&str; 1] = ["veth"];

/// A downloaded kernel.
pub struct Kernel {
    /// The kernel's entry in the list.
    pub release: &'static Release,
    /// The kernel image.
    pub image: PathBuf,
    /// The kernel's drivers.
    pub modules: Vec<PathBuf>,
}

/// Returns the kernel of `release`, and downloads it if needed. Delete its folder in `paths::kernels` to get a newer
/// one.
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

/// The newest version of the kernel, and the kernel's own name.
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

/// Each version of the package, with the name of the kernel that the package depends on.
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

/// Unpacks the image and the drivers from the packages in `packages`.
fn unpack(packages: &Path, folder: &Path) -> Result<()> {
    let tree = paths::scratch()?;
    for package in fs::read_dir(packages)? {
        let mut extract = Command::new("dpkg-deb");
        run(extract
            .arg("--extract")
            .args([&package?.path(), tree.path()]))?;
    }
    // Unpacks to a temporary folder first: half a kernel must not look complete.
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

/// Finds the file below `folder` whose name begins with `start`.
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
