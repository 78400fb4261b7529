//! Makes tarball, `.deb` and `.rpm` of a tree, with the distributions' own tools.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{VERSION, binary::Binary, tree::Tree};
use crate::{
    paths,
    process::{output, run},
};

/// The folder in which all distributions but Debian look for zsh's completions.
const ZSH: &str = "site-functions";
/// Files that an upgrade must not replace if they were edited.
const CONFIGURATION: [&str; 4] = [
    "etc/default/limiter",
    "etc/fail2ban/action.d/limiter.conf",
    "etc/fail2ban/action.d/limiter-network.conf",
    "etc/limiter/limiter.toml",
];

/// Makes the tarball, with the tree in one folder. Returns the file's name.
pub fn tarball(binary: &Binary, scratch: &Path, out: &Path, epoch: u64) -> Result<String> {
    let name = format!("limiter-{VERSION}-{}-linux", binary.architecture.name);
    let tree = Tree::make(scratch.join(&name), binary, ZSH)?;
    let tar = scratch.join("tar");
    self::tar(scratch, &[&name], &tar, epoch)?;
    run(&mut binary.gzip(&tar))?;
    let file = format!("{name}.tar.gz");
    put(&scratch.join("tar.gz"), &out.join(&file))?;
    fs::remove_dir_all(tree.root)?;
    Ok(file)
}

/// Makes the archive `tar` of these files and folders in `folder`, with the same bytes on every machine.
pub fn tar(folder: &Path, names: &[&str], tar: &Path, epoch: u64) -> Result<()> {
    let mut pack = Command::new("tar");
    pack.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner"]);
    pack.args(["--owner=0", "--group=0", &format!("--mtime=@{epoch}")]);
    pack.arg("--file").arg(tar).arg("--directory").arg(folder);
    run(pack.args(names))
}

/// Makes the package for Debian. Returns the file's name.
pub fn deb(binary: &Binary, scratch: &Path, out: &Path, epoch: u64) -> Result<String> {
    let architecture = binary.architecture.debian;
    let file = format!("limiter_{VERSION}_{architecture}.deb");
    let tree = Tree::make(scratch.join("deb"), binary, "vendor-completions")?;
    let copyright = fs::read(paths::root().join("packaging/deb/copyright"))?;
    tree.write("usr/share/doc/limiter/copyright", &copyright, 0o644)?;
    let sums = output(
        Command::new("md5sum")
            .args(tree.files()?)
            .current_dir(&tree.root),
    )?;
    let kib = tree.size()?.div_ceil(1024).to_string();
    let control = template("deb/control")?
        .replace("@VERSION@", VERSION)
        .replace("@DEB_ARCHITECTURE@", architecture)
        .replace("@KIB@", &kib);
    tree.write("DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    tree.write("DEBIAN/control", control.as_bytes(), 0o644)?;
    let conffiles = CONFIGURATION.map(|file| format!("/{file}\n")).concat();
    tree.write("DEBIAN/conffiles", conffiles.as_bytes(), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        let text = template(&format!("deb/{script}"))?;
        tree.write(Path::new("DEBIAN").join(script), text.as_bytes(), 0o755)?;
    }
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip"]);
    build.args([&format!("-z{}", binary.level), "--build"]);
    build.arg(&tree.root).arg(out.join(&file));
    output(build.env("SOURCE_DATE_EPOCH", epoch.to_string()))?;
    Ok(file)
}

/// Makes the package for Fedora, openSUSE and related distributions. Returns the file's name.
pub fn rpm(binary: &Binary, scratch: &Path, out: &Path, epoch: u64) -> Result<String> {
    let file = format!("limiter-{VERSION}-1.{}.rpm", binary.architecture.name);
    let tree = Tree::make(scratch.join("rpm"), binary, ZSH)?;
    let spec = template("rpm/limiter.spec")?
        .replace("@VERSION@", VERSION)
        .replace("@TREE@", &tree.root.to_string_lossy())
        .replace("@FILES@", &listed(&tree.files()?));
    // The path of the spec file does not appear in the package.
    let spec_file = scratch.join("limiter.spec");
    fs::write(&spec_file, spec)?;
    let top = scratch.join("rpmbuild");
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", binary.architecture.name]);
    for (name, value) in [
        ("_topdir", &*top.to_string_lossy()),
        ("_rpmdir", &*scratch.join("rpms").to_string_lossy()),
        ("_build_name_fmt", "limiter.rpm"),
        ("_buildhost", "localhost"),
        ("_binary_payload", &format!("w{}.gzdio", binary.level)),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
    ] {
        build.args(["--define", &format!("{name} {value}")]);
    }
    build.env("SOURCE_DATE_EPOCH", epoch.to_string());
    output(build.arg(spec_file))?;
    put(&scratch.join("rpms/limiter.rpm"), &out.join(&file))?;
    Ok(file)
}

fn listed(files: &[String]) -> String {
    let line = |file: &String| {
        let kind = match file {
            file if CONFIGURATION.contains(&file.as_str()) => "%config(noreplace) ",
            file if file.starts_with("usr/share/doc/") => "%doc ",
            _ => "",
        };
        format!("{kind}/{file}\n")
    };
    let own = ["%dir /etc/limiter\n", "%dir /usr/lib/limiter\n"].map(String::from);
    own.into_iter().chain(files.iter().map(line)).collect()
}

fn template(name: &str) -> Result<String> {
    let path: PathBuf = paths::root().join("packaging").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn put(from: &Path, destination: &Path) -> Result<()> {
    fs::copy(from, destination)
        .with_context(|| format!("cannot write {}", destination.display()))?;
    Ok(())
}
