//! What a test needs of the machine, and a loud word where that is missing.

use std::{fs::OpenOptions, io::Write, sync::OnceLock};

/// Whether this process may load BPF programs and make network namespaces. Looks once.
fn missing_for_kernel() -> Option<&'static str> {
    static MISSING: OnceLock<Option<&'static str>> = OnceLock::new();
    *MISSING.get_or_init(|| {
        if !nix::unistd::geteuid().is_root() {
            return Some("not root");
        }
        if limiter_user::kernel::sys::requirements::kernel().is_err() {
            return Some("the kernel is older than 5.15");
        }
        if limiter_user::kernel::sys::requirements::privileges().is_err() {
            return Some("no CAP_BPF or CAP_NET_ADMIN");
        }
        if limiter_user::testbed::Namespace::new().is_err() {
            return Some("no network namespaces");
        }
        None
    })
}

/// True where a test of the kernel can run. Else says so, on standard error and in the file that
/// `cargo xtask test` counts; where nothing may be skipped (`LIMITER_STRICT`), the test fails.
#[must_use]
pub fn kernel(test: &str) -> bool {
    missing_for_kernel().is_none_or(|why| skip(test, why))
}

/// True where the program `tool` is there to be called.
#[must_use]
pub fn tool(test: &str, tool: &str) -> bool {
    let there = std::process::Command::new(tool)
        .arg("version")
        .output()
        .is_ok();
    there || skip(test, &format!("no {tool}"))
}

/// The same for programs that have no verb `version`: those in the folders of PATH.
#[must_use]
pub fn program(test: &str, name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    there || skip(test, &format!("no {name}"))
}

/// True where packages can be made.
#[must_use]
pub fn packages(test: &str) -> bool {
    ["dpkg-deb", "rpmbuild", "strip"]
        .iter()
        .all(|tool| self::tool(test, tool))
}

/// True where this machine can boot once more, in memory.
#[must_use]
pub fn container(test: &str) -> bool {
    let overlay = std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|filesystems| filesystems.contains("\toverlay\n"));
    let systemd = std::path::Path::new("/lib/systemd/systemd").exists();
    (overlay || skip(test, "no overlayfs")) && (systemd || skip(test, "no systemd"))
}

/// Says that `test` cannot run, and why.
pub fn missing(test: &str, why: &str) {
    skip(test, why);
}

fn skip(test: &str, why: &str) -> bool {
    assert!(
        std::env::var_os("LIMITER_STRICT").is_none(),
        "{test} cannot run here: {why}"
    );
    eprintln!("SKIPPED {test}: {why}");
    if let Some(path) = std::env::var_os("LIMITER_SKIPS") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{test}: {why}").unwrap();
    }
    false
}

/// Leaves a test that needs the kernel where there is none to test on.
#[macro_export]
macro_rules! need_kernel {
    () => {
        if !$crate::need::kernel(concat!(module_path!(), ", line ", line!())) {
            return;
        }
    };
}
