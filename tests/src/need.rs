//! Checks what tests require of the machine, and reports loudly if something is missing.

use std::{fs::OpenOptions, io::Write, sync::OnceLock};

use limiter_kernel::sys::requirements;

use crate::testbed::Namespace;

/// The reason why this process cannot load BPF programs or make network namespaces; none if it can. Checked once.
fn missing_for_kernel() -> Option<&'static str> {
    static MISSING: OnceLock<Option<&'static str>> = OnceLock::new();
    *MISSING.get_or_init(|| {
        if !nix::unistd::geteuid().is_root() {
            Some("not root")
        } else if requirements::kernel().is_err() {
            Some("the kernel lacks what limiter needs")
        } else if requirements::privileges().is_err() {
            Some("no CAP_BPF or CAP_NET_ADMIN")
        } else if Namespace::new().is_err() {
            Some("no network namespaces")
        } else {
            None
        }
    })
}

/// True if a test of the kernel can run. If it cannot, reports that as [`missing`] does.
pub fn kernel(test: &str) -> bool {
    missing_for_kernel().is_none_or(|why| missing(test, why))
}

/// True if the program `tool` can be run.
pub fn tool(test: &str, tool: &str) -> bool {
    let there = std::process::Command::new(tool)
        .arg("version")
        .output()
        .is_ok();
    there || missing(test, &format!("no {tool}"))
}

/// True if a program is in PATH, for programs without a verb `version`.
pub fn program(test: &str, name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    there || missing(test, &format!("no {name}"))
}

/// The folder of public captures, which `cargo xtask test` unpacks.
pub fn captures(test: &str) -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("LIMITER_CAPTURES").map(std::path::PathBuf::from);
    if folder.is_none() {
        missing(test, "no captures: `cargo xtask test` unpacks them");
    }
    folder
}

/// True if Python can read YAML.
pub fn python_yaml(test: &str) -> bool {
    let import = std::process::Command::new("python3")
        .args(["-c", "import yaml"])
        .status();
    import.is_ok_and(|status| status.success()) || missing(test, "no python3-yaml")
}

/// True if packages can be built.
pub fn packages(test: &str) -> bool {
    ["dpkg-deb", "rpmbuild", "strip"]
        .iter()
        .all(|tool| self::tool(test, tool))
}

/// True if this machine can boot a copy of itself in memory.
pub fn container(test: &str) -> bool {
    let overlay = std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|filesystems| filesystems.contains("\toverlay\n"));
    let systemd = std::path::Path::new("/lib/systemd/systemd").exists();
    (overlay || missing(test, "no overlayfs")) && (systemd || missing(test, "no systemd"))
}

/// True if this kernel has links to the hooks of the network stack (Linux 6.6).
pub fn tcx() -> bool {
    requirements::has_tcx()
}

/// True in the machines of `cargo xtask test --kernels`, which are emulated, so slow.
pub fn is_machine() -> bool {
    std::env::var_os("LIMITER_MACHINE").is_some()
}

/// Reports that `test` needs something that this kernel lacks. In the machines of `cargo xtask test --kernels`, which have
/// the modules that tests need, this is a failure. Elsewhere the test is skipped; with `LIMITER_STRICT`, it is left to
/// those machines.
pub fn of_kernel(test: &str, feature: &str) {
    assert!(
        !is_machine(),
        "{test} cannot run: this kernel has no {feature}"
    );
    if std::env::var_os("LIMITER_STRICT").is_some() {
        eprintln!("{test} runs only in emulated machines: this kernel has no {feature}");
    } else {
        missing(test, &format!("this kernel has no {feature}"));
    }
}

/// Reports that `test` cannot run, on standard error and in the file that `cargo xtask test` counts. Panics with
/// `LIMITER_STRICT`, which forbids skipping. Returns false.
pub fn missing(test: &str, why: &str) -> bool {
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

/// Returns from a test if there is no kernel to test on.
#[macro_export]
macro_rules! need_kernel {
    () => {
        if !$crate::need::kernel(concat!(module_path!(), ", line ", line!())) {
            return;
        }
    };
}

/// Returns from a test if a program is not installed.
#[macro_export]
macro_rules! need_program {
    ($name:literal) => {
        if !$crate::need::program(concat!(module_path!(), ", line ", line!()), $name) {
            return;
        }
    };
}
