//! Installs Debian packages, if that is possible without a question.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    apt::Apt,
    paths,
    process::{output, progress, run},
    processors::Architecture,
};

/// True if packages can be installed here.
pub fn can_install() -> bool {
    is_debian() && is_root()
}

/// Makes sure that `packages`, separated by spaces, are installed. `purpose`: their use, for messages.
pub fn ensure(packages: &str, purpose: &str) -> Result<()> {
    if !is_debian() {
        bail!("{purpose} needs programs that Debian has in {packages}: install them");
    }
    let packages = packages.split(' ');
    let missing: Vec<&str> = packages.filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !is_root() {
        bail!("{purpose} needs Debian packages: run as root: apt-get install {names}");
    }
    install(&missing).with_context(|| format!("{purpose} needs Debian packages {names}"))
}

/// Unpacks a package, which this release of Debian may have only in its backports, into a folder of this checkout.
/// Installing it would start a service, now and at each boot. `programs`: the folder of the programs in the package.
/// Returns the path of that folder.
pub fn unpack((package, programs): (&str, &str)) -> Result<PathBuf> {
    let tools = paths::target().join("tools");
    let programs = tools.join(package).join(programs);
    if programs.exists() {
        return Ok(programs);
    }
    if !is_debian() {
        bail!("testing needs the Debian package {package}: install it");
    }
    progress(&format!("unpacking the Debian package {package}"));
    let release = release()?;
    let lists = tools.join("lists");
    let debian = Architecture::of(None)?.debian;
    let apt = Apt::new(&lists, &[format!("{release}-backports"), release], debian)?;
    // Unpacks to a temporary folder first: half a package must not look complete.
    let unpacked = tools.join(format!("{package}.new"));
    apt.unpack(&[package], &unpacked)?;
    fs::rename(unpacked, tools.join(package))?;
    Ok(programs)
}

/// The source package whose captures the tests of `explain` read, the release that has it, and their folder in it.
const CAPTURES: (&str, &str, &str) = ("ndpi=4.2-2", "bookworm", "tests/pcap");

/// Unpacks public captures into a folder of this checkout. Returns its path.
pub fn captures() -> Result<PathBuf> {
    let (package, release, part) = CAPTURES;
    let tools = paths::target().join("tools");
    let folder = tools.join(package);
    if folder.exists() {
        return Ok(folder.join(part));
    }
    if !is_debian() {
        bail!("testing needs the captures of Debian's source package {package}: run it on Debian");
    }
    progress(&format!(
        "unpacking the captures of the source package {package} (130 MB)"
    ));
    let debian = Architecture::of(None)?.debian;
    let apt = Apt::of_sources(&tools.join("sources"), release, debian)?;
    let unpacked = tools.join(format!("{package}.new"));
    apt.unpack_source(package, part, &unpacked)?;
    fs::rename(unpacked, &folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.join(part))
}

/// The code name of this Debian release.
pub fn release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(|name| name.trim_matches('"').to_owned())
        .context("/etc/os-release has no VERSION_CODENAME")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists() && Path::new("/usr/bin/apt-get").exists()
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    output(&mut query).is_ok_and(|status| status == "installed")
}

fn install(packages: &[&str]) -> Result<()> {
    progress("updating Debian's package lists");
    // An error is not fatal: an unreachable third-party source must not stop an installation that does not need it. If
    // it is needed, the installation fails.
    if let Err(error) = run(apt_get().arg("update")) {
        progress(&format!("going on with the old package lists: {error:#}"));
    }
    progress(&format!("installing {}", packages.join(" ")));
    run(apt_get()
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages))
}

fn apt_get() -> Command {
    let mut apt_get = Command::new("apt-get");
    apt_get.args(["--quiet=2", "--option=Dpkg::Use-Pty=0"]);
    apt_get.env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}
