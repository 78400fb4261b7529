//! What the kernel must offer.

use std::io;

use crate::kernel::error::{Error, Result};

/// A kernel's version: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion(pub u32, pub u32);

/// The oldest supported: see the table of KNOWN_ISSUES.md. The arm64 JIT has atomic instructions that
/// return a value since 5.18 (commit 1902472b4fa9).
const OLDEST: KernelVersion = if cfg!(target_arch = "aarch64") {
    KernelVersion(5, 18)
} else {
    KernelVersion(5, 15)
};
/// Multi-buffer XDP (commit c2f2cdbeffda).
const FRAGS: KernelVersion = KernelVersion(5, 18);

/// The running kernel, if it is new enough.
pub fn kernel() -> Result<KernelVersion> {
    let release = release()?;
    match parse(&release) {
        Some(version) if version >= OLDEST => Ok(version),
        _ => Err(Error::Refused(format!(
            "this kernel is {release}, and limiter needs {}.{} or later (atomic compare-and-swap and links for XDP): boot a newer kernel",
            OLDEST.0, OLDEST.1
        ))),
    }
}

/// What the running kernel calls itself.
pub fn release() -> Result<String> {
    let name = nix::sys::utsname::uname()
        .map_err(|error| Error::system("asking for the kernel's version", error.into()))?;
    Ok(name.release().to_string_lossy().into_owned())
}

impl KernelVersion {
    /// Whether it knows packets in several buffers: jumbo frames.
    #[must_use]
    pub fn has_frags(self) -> bool {
        self >= FRAGS
    }
}

fn parse(release: &str) -> Option<KernelVersion> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some(KernelVersion(
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    ))
}

const CAP_SYS_ADMIN: u32 = 21;

/// What limiter needs a capability for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    number: u32,
    /// Its name.
    pub name: &'static str,
    /// What it is for, after "to".
    pub why: &'static str,
}

/// To load programs and maps, and open those that are pinned.
pub const BPF: Needed = Needed {
    number: 39,
    name: "CAP_BPF",
    why: "load what limits, and open what is pinned",
};
/// To attach.
pub const NET_ADMIN: Needed = Needed {
    number: 12,
    name: "CAP_NET_ADMIN",
    why: "attach it to interfaces",
};

/// Without it the verifier also follows speculative execution, and refuses the program.
pub const PERFMON: Needed = Needed {
    number: 38,
    name: "CAP_PERFMON",
    why: "pass the kernel's verifier",
};

/// Refuses early, and in words, what the kernel would refuse later with EPERM or a line of the
/// verifier's.
pub fn privileges() -> Result<()> {
    let missing = missing_capabilities()?;
    if missing.is_empty() {
        Ok(())
    } else {
        let with_reasons = missing
            .iter()
            .map(|needed| format!("{} (to {})", needed.name, needed.why));
        Err(Error::Lacks(with_reasons.collect::<Vec<_>>().join(" and ")))
    }
}

/// The needed capabilities that this thread lacks. `CAP_SYS_ADMIN` does for all of them.
pub fn missing_capabilities() -> Result<Vec<Needed>> {
    let own = own_capabilities()?;
    let lacks = |capability: u32| own & (1 << capability | 1 << CAP_SYS_ADMIN) == 0;
    let needed = [BPF, NET_ADMIN, PERFMON].into_iter();
    Ok(needed.filter(|needed| lacks(needed.number)).collect())
}

/// Whether this process may mount a bpffs.
pub fn may_mount() -> Result<bool> {
    Ok(own_capabilities()? & (1 << CAP_SYS_ADMIN) != 0)
}

fn own_capabilities() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status")
        .map_err(|error| Error::system("reading /proc/thread-self/status", error))?;
    effective_capabilities(&status).ok_or_else(|| {
        Error::system(
            "reading the process's capabilities",
            io::ErrorKind::InvalidData.into(),
        )
    })
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions() {
        for (release, version) in [
            ("6.18.44-fc", KernelVersion(6, 18)),
            ("5.15.0-101-generic", KernelVersion(5, 15)),
            ("5.10.0-28-amd64", KernelVersion(5, 10)),
            ("6.1", KernelVersion(6, 1)),
            ("7.0-rc1", KernelVersion(7, 0)),
        ] {
            assert_eq!(parse(release), Some(version), "{release}");
        }
        assert_eq!(parse("linux"), None);
        assert!(KernelVersion(5, 14) < OLDEST && KernelVersion(6, 1) > OLDEST);
        assert!(!KernelVersion(5, 17).has_frags() && KernelVersion(5, 18).has_frags());
    }

    #[test]
    fn capabilities_are_read_from_status() {
        let status = "Name:\tx\nCapEff:\t0000008000001000\nCapBnd:\t0\n";
        assert_eq!(effective_capabilities(status), Some(1 << 39 | 1 << 12));
        assert_eq!(effective_capabilities(""), None);
    }
}
