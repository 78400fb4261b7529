//! Requirements for the kernel and for this process's capabilities.

use std::{fs, io};

use caps::{CapSet, Capability, CapsHashSet};

use crate::{Error, Failed, Result, sys::features};

/// A kernel's version: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion(pub u32, pub u32);

/// The oldest version that is not asked whether it has what every program needs. The arm64 JIT has atomic instructions that
/// return a value since 5.18 (commit 1902472b4fa9).
const OLDEST: KernelVersion = if cfg!(target_arch = "aarch64") {
    KernelVersion(5, 18)
} else {
    KernelVersion(5, 15)
};

/// The oldest version on which the tests run (docs/kernels.md).
const TESTED: KernelVersion = KernelVersion(6, 1);

/// Refuses a kernel without what every program needs. The version may be older than [`OLDEST`] if a distribution has added
/// that.
pub fn kernel() -> Result<()> {
    if version()? >= Some(OLDEST) {
        return Ok(());
    }
    let (release, KernelVersion(major, minor)) = (release()?, OLDEST);
    match features::missing() {
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(missing) => Err(Error::Refused(format!(
            "this kernel is {release}, and lacks what limiter needs: {} (Linux {major}.{minor} and later have that): boot a newer kernel",
            missing.join(" and ")
        ))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Error::NotPermitted(format!(
                "this kernel is {release}, older than {major}.{minor}, and only a privileged process can try whether it has what limiter needs: run limiter with sudo"
            )))
        }
        Err(error) => Err(Error::system("trying the kernel's features", error)),
    }
}

/// Refuses proofs in the network stack, and on a kernel whose programs cannot write into packets.
pub fn answers(in_stack: bool) -> Result<()> {
    if in_stack {
        return Err(Error::Refused(
            "mode tc and outgoing packets have no proof (\"syn-cookie\", \"dns-tc\", \"a2s\"), because only XDP can answer a packet: leave proof out, or for packets that come in `limiter detach` and attach with --mode xdp".to_owned(),
        ));
    }
    if has_frags() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "this kernel is {}, and lacks what a proof needs: XDP programs that copy bytes of packets (Linux 5.18): leave proof out, or boot a newer kernel",
        release()?
    )))
}

/// A note about a kernel that is older than all tested ones.
pub fn untested() -> Option<String> {
    version().ok().flatten().and_then(KernelVersion::untested)
}

/// A note about outgoing packets on a real-time kernel whose tasks interrupt each other while they send: since Linux 6.18,
/// unless it is built to keep them apart, which a process cannot see.
pub fn may_mix_up() -> Option<&'static str> {
    let name = nix::sys::utsname::uname().ok()?;
    let is_real_time = name.version().to_string_lossy().contains("PREEMPT_RT");
    let is_new = version().is_ok_and(|version| version >= Some(KernelVersion(6, 18)));
    (is_real_time && is_new).then_some(
        "on this real-time kernel, outgoing packets that interrupt each other on a CPU may be taken for each other, unless it has CONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y: limit them elsewhere, or accept that",
    )
}

/// True if this kernel has packets in several buffers, so jumbo frames (commit c2f2cdbeffda), and helpers that copy bytes
/// of packets for XDP (commit 3f364222d032).
pub fn has_frags() -> bool {
    has_since(KernelVersion(5, 18), features::has_frags)
}

/// True if this kernel has links to the hooks of the network stack (commit e420bed02507).
pub fn has_tcx() -> bool {
    has_since(KernelVersion(6, 6), features::has_tcx)
}

/// True if this kernel has a feature that came with version `first`: only an older version is asked.
fn has_since(first: KernelVersion, asked: fn() -> io::Result<bool>) -> bool {
    let is_new = version().is_ok_and(|version| version >= Some(first));
    is_new || asked().unwrap_or(false)
}

/// The running kernel's version; `None` if its name has none.
pub fn version() -> Result<Option<KernelVersion>> {
    Ok(parse(&release()?))
}

/// Returns true if `net.ipv4.tcp_syncookies` lets listeners of this network namespace send cookies at any time; `None`
/// if this process does not see the setting, as in a unit with `ProcSubset=pid`.
pub fn has_syn_cookies() -> Option<bool> {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/tcp_syncookies").ok()?;
    Some(setting.trim() == "2")
}

/// The running kernel's release name (`uname -r`).
pub fn release() -> Result<String> {
    let name = nix::sys::utsname::uname().failed("reading the kernel's version")?;
    Ok(name.release().to_string_lossy().into_owned())
}

impl KernelVersion {
    /// A note about a kernel that is older than all tested ones.
    fn untested(self) -> Option<String> {
        (self < TESTED).then(|| {
            format!(
                "limiter is not tested on Linux {}.{}, only on {}.{} and later: try it with --shadow or --try",
                self.0, self.1, TESTED.0, TESTED.1
            )
        })
    }
}

fn parse(release: &str) -> Option<KernelVersion> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some(KernelVersion(
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    ))
}

/// A needed capability, and its purpose, after "to".
pub type Needed = (Capability, &'static str);

/// The needed capabilities. Without `CAP_PERFMON`, the verifier does not ignore speculative execution, and refuses the
/// program.
pub const NEEDED: [Needed; 3] = [
    (
        Capability::CAP_BPF,
        "load programs and maps, and open pinned ones",
    ),
    (Capability::CAP_NET_ADMIN, "attach programs to interfaces"),
    (Capability::CAP_PERFMON, "pass the kernel's verifier"),
];

/// Refuses early, with a clear message, operations that the kernel would refuse later with EPERM or a line of the
/// verifier's log.
pub fn privileges() -> Result<()> {
    refuse(&missing_capabilities()?)
}

/// Refuses to open pins without `CAP_BPF`, the only capability that reading needs.
pub fn may_read() -> Result<()> {
    let mut missing = missing_capabilities()?;
    missing.retain(|(needed, _)| *needed == Capability::CAP_BPF);
    refuse(&missing)
}

fn refuse(missing: &[Needed]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let reasons = missing
        .iter()
        .map(|(needed, why)| format!("{needed} (to {why})"));
    Err(Error::NotPermitted(format!(
        "this process lacks {}: run it with sudo, or give it the missing capabilities (docs/security.md)",
        reasons.collect::<Vec<_>>().join(" and ")
    )))
}

/// The needed capabilities that this thread lacks. `CAP_SYS_ADMIN` replaces all of them.
pub fn missing_capabilities() -> Result<Vec<Needed>> {
    let own = own_capabilities()?;
    let lacks =
        |needed: Capability| !own.contains(&needed) && !own.contains(&Capability::CAP_SYS_ADMIN);
    let missing = NEEDED.into_iter().filter(|(needed, _)| lacks(*needed));
    Ok(missing.collect())
}

/// Returns true if this process may mount a bpffs.
pub fn may_mount() -> Result<bool> {
    Ok(own_capabilities()?.contains(&Capability::CAP_SYS_ADMIN))
}

fn own_capabilities() -> Result<CapsHashSet> {
    let own = caps::read(None, CapSet::Effective).map_err(io::Error::other);
    own.failed("reading the process's capabilities")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_of_distributions_are_parsed() {
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
        for (version, untested) in [
            ((5, 15), true),
            ((6, 0), true),
            ((6, 1), false),
            ((7, 3), false),
        ] {
            let note = KernelVersion(version.0, version.1).untested();
            assert_eq!(note.is_some(), untested, "{version:?}: {note:?}");
        }
    }
}
