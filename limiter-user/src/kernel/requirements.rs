//! What the kernel must offer.

use std::io;

use super::error::{Error, Result};

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
        _ => Err(Error::KernelTooOld {
            release,
            oldest: format!("{}.{}", OLDEST.0, OLDEST.1),
        }),
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

/// The needed capabilities. Without `CAP_PERFMON` a program may not subtract or compare pointers.
const NEEDED: [(u32, &str); 3] = [(39, "CAP_BPF"), (12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON")];

/// Refuses early, and in words, what the kernel would refuse later with EPERM or a line of the
/// verifier's.
pub fn privileges() -> Result<()> {
    if missing_capabilities()?.is_empty() {
        Ok(())
    } else {
        Err(Error::NotPermitted)
    }
}

/// The needed capabilities that this process lacks. `CAP_SYS_ADMIN` does for all of them.
pub fn missing_capabilities() -> Result<Vec<&'static str>> {
    let own = own_capabilities()?;
    let lacks = |capability: u32| own & (1 << capability | 1 << CAP_SYS_ADMIN) == 0;
    let missing = NEEDED.into_iter().filter(|(number, _)| lacks(*number));
    Ok(missing.map(|(_, name)| name).collect())
}

/// Whether this process may mount a bpffs.
pub fn may_mount() -> Result<bool> {
    Ok(own_capabilities()? & (1 << CAP_SYS_ADMIN) != 0)
}

fn own_capabilities() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| Error::system("reading /proc/self/status", error))?;
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
