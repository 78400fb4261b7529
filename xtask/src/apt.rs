//! Packages of chosen Debian releases, through apt with separate lists and sources. Nothing is installed, and the
//! machine's own lists do not change.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{output, run},
};

/// The keys that sign Debian's lists.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Of several versions of a kernel, apt takes the newest, even from backports.
const PREFERENCES: &str = "Package: linux-*\nPin: release o=Debian*\nPin-Priority: 500\n";

/// Options for apt with separate lists.
pub struct Apt(Vec<String>);

impl Apt {
    /// Sets up apt for the packages of these suites and of a processor, by Debian's name. `folder`: the folder of their
    /// lists.
    pub fn new(folder: &Path, suites: &[impl AsRef<str>], debian: &str) -> Result<Self> {
        Self::of(folder, "deb", suites, debian)
    }

    /// Sets up apt for the source packages of a suite. `folder`: the folder of their lists.
    pub fn of_sources(folder: &Path, suite: &str, debian: &str) -> Result<Self> {
        Self::of(folder, "deb-src", &[suite], debian)
    }

    fn of(folder: &Path, kind: &str, suites: &[impl AsRef<str>], debian: &str) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mirror = mirror()?;
        let line = |suite: &str| format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n");
        let sources: String = suites.iter().map(|suite| line(suite.as_ref())).collect();
        fs::write(folder.join("sources.list"), sources)?;
        fs::write(folder.join("preferences"), PREFERENCES)?;
        let path = |part: &str| folder.join(part).display().to_string();
        let apt = Self(vec![
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::Cache={}", path("cache")),
            format!("Dir::Etc::SourceList={}", path("sources.list")),
            format!("Dir::Etc::Preferences={}", path("preferences")),
            "Dir::Etc::SourceParts=-".to_owned(),
            // Installed versions may come from other suites, and are not wanted.
            "Dir::State::Status=/dev/null".to_owned(),
            format!("APT::Architecture={debian}"),
            format!("APT::Architectures={debian}"),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ]);
        run(apt.command("apt-get").args(["--quiet=2", "update"]))?;
        Ok(apt)
    }

    /// Downloads packages, and unpacks them into `folder`.
    pub fn unpack(&self, packages: &[impl AsRef<std::ffi::OsStr>], folder: &Path) -> Result<()> {
        let downloaded = paths::scratch()?;
        let mut get = self.command("apt-get");
        get.args(["--quiet=2", "download"]).args(packages);
        run(get.current_dir(downloaded.path()))?;
        for file in paths::files_in(downloaded.path())? {
            let mut extract = Command::new("dpkg-deb");
            run(extract.arg("--extract").args([&file, folder]))?;
        }
        Ok(())
    }

    /// Downloads the source of a package, written NAME=VERSION, and unpacks its files below `part` into `folder`.
    pub fn unpack_source(&self, package: &str, part: &str, folder: &Path) -> Result<()> {
        let downloaded = paths::scratch()?;
        let mut get = self.command("apt-get");
        get.args([
            "--quiet=2",
            "source",
            "--download-only",
            "--tar-only",
            package,
        ]);
        run(get.current_dir(downloaded.path()))?;
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        for file in paths::files_in(downloaded.path())? {
            if !file.to_string_lossy().contains(".orig.tar.") {
                continue;
            }
            let mut extract = Command::new("tar");
            extract.args(["--extract", "--strip-components=1", "--wildcards"]);
            extract.arg("--directory").arg(folder);
            run(extract.arg("--file").arg(&file).arg(format!("*/{part}")))?;
        }
        Ok(())
    }

    /// The names of these packages, separated by spaces, and of all that they need on an empty system.
    pub fn needed(&self, packages: &str) -> Result<Vec<String>> {
        let mut install = self.command("apt-get");
        install.args(["install", "--simulate", "--no-install-recommends"]);
        let plan = output(install.args(packages.split(' ')))?;
        let names = plan
            .lines()
            .filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    /// The newest version of a package.
    pub fn version(&self, package: &str) -> Result<String> {
        let mut show = self.command("apt-cache");
        let shown = output(show.args(["show", "--no-all-versions", package]))?;
        let version = shown
            .lines()
            .find_map(|line| line.strip_prefix("Version: "));
        version
            .map(str::to_owned)
            .with_context(|| format!("no version of {package}"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.0 {
            command.args(["--option", option]);
        }
        command
    }
}

/// The mirror that this machine uses for Debian's packages.
fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    targets.args(["Created-By: Packages", "Origin: Debian", "Label: Debian"]);
    let found = output(&mut targets).context("cannot find Debian's mirror in apt's sources")?;
    let first = found.lines().next().map(str::to_owned);
    first.context("no mirror of Debian: name one in /etc/apt/sources.list, then run apt-get update")
}
