//! Kernel, privileges and bpffs.

use super::Finding;
use crate::kernel::{
    Error,
    probe::Machine,
    sys::{bpffs::BPFFS, requirements::Needed},
};

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    vec![
        kernel(machine),
        frags(machine),
        jit(machine.jit),
        privileges(&machine.missing),
        bpffs(machine),
    ]
}

fn kernel(machine: &Machine) -> Finding {
    match &machine.kernel {
        Ok(_) => Finding::ok("kernel", format!("Linux {}", machine.release)),
        Err(error) => Finding::error("kernel", error),
    }
}

/// No trouble by itself: whether it is one is said with the MTU.
fn frags(machine: &Machine) -> Finding {
    let found = match &machine.kernel {
        Ok(version) if version.has_frags() => "frames in several buffers are taken",
        _ => "frames in one buffer only: Linux 5.18 takes larger ones",
    };
    Finding::ok("frags", found)
}

fn jit(setting: Option<u32>) -> Finding {
    const CHECK: &str = "jit";
    match setting {
        Some(0) => Finding::warning(
            CHECK,
            "BPF programs are interpreted, which is several times slower",
            "`sysctl -w net.core.bpf_jit_enable=1`",
        ),
        Some(_) => Finding::ok(CHECK, "BPF programs are compiled"),
        None => Finding::warning(
            CHECK,
            "whether BPF programs are compiled cannot be told from here",
            "look as root in the initial network namespace: `sysctl net.core.bpf_jit_enable`",
        ),
    }
}

fn privileges(missing: &[Needed]) -> Finding {
    const CHECK: &str = "privileges";
    if missing.is_empty() {
        return Finding::ok(
            CHECK,
            "this process has all that limiter needs (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)",
        );
    }
    let names: Vec<&str> = missing.iter().map(|needed| needed.name).collect();
    Finding::problem(
        CHECK,
        format!("this process lacks {}", names.join(", ")),
        "run it with sudo, or give it what it lacks (docs/security.md)",
    )
}

fn bpffs(machine: &Machine) -> Finding {
    const CHECK: &str = "bpffs";
    match &machine.bpffs {
        Ok(true) => Finding::ok(CHECK, format!("mounted at {BPFFS}")),
        Ok(false) if machine.may_mount => {
            Finding::ok(CHECK, format!("not mounted at {BPFFS}: `attach` does that"))
        }
        Ok(false) => Finding::problem(
            CHECK,
            format!("not mounted at {BPFFS}, and mounting it wants CAP_SYS_ADMIN"),
            format!("`mount -t bpf -o mode=0700 bpf {BPFFS}` as root"),
        ),
        Err(Error::NotPermitted | Error::Denied { .. }) => Finding::problem(
            CHECK,
            format!(
                "user {} may not change what is pinned there",
                nix::unistd::geteuid()
            ),
            "run it with sudo, or give that user /sys/fs/bpf/limiter (docs/security.md)",
        ),
        Err(error) => Finding::error(CHECK, error),
    }
}
