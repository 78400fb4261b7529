//! Checks the permissions on this machine.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The reason why programs cannot be loaded and attached here; none if they can.
pub fn why_no_bpf() -> Option<&'static str> {
    if !is_root() {
        return Some("not root");
    }
    // This setting exists only if the kernel has the bpf system call.
    if !Path::new("/proc/sys/kernel/unprivileged_bpf_disabled").exists() {
        return Some("the kernel has no BPF");
    }
    if !may_load_and_attach() {
        return Some("root without the capabilities to load and attach BPF programs");
    }
    None
}

/// Root in a container often lacks CAP_SYS_ADMIN (which includes CAP_BPF) and CAP_NET_ADMIN.
fn may_load_and_attach() -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    const SYS_ADMIN: u64 = 1 << 21;
    const BPF: u64 = 1 << 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & NET_ADMIN != 0 && bits & (SYS_ADMIN | BPF) != 0)
}
