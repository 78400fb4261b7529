//! Kernel, privileges and bpffs.

use limiter_kernel::{probe::Machine, sys::bpffs::BPFFS};

use super::finding::{Finding, error, ok, problem};

pub(super) fn kernel(machine: &Machine) -> Finding {
    match &machine.kernel {
        Ok(()) => {
            let lacks = [
                (machine.has_frags, "jumbo frames in native mode and proof"),
                (machine.has_tcx, "mode tc and limits for outgoing packets"),
            ];
            let lacks = lacks.iter().filter(|(has, _)| !has);
            let lacks: Vec<_> = lacks.map(|(_, lacks)| *lacks).collect();
            let without = match lacks.is_empty() {
                true => String::new(),
                false => format!(", without {}", lacks.join(" and ")),
            };
            ok(format!("Linux {}{without}", machine.release))
        }
        Err(why) => error(why),
    }
}

pub(super) fn privileges(machine: &Machine) -> Finding {
    let missing = &machine.missing;
    if missing.is_empty() {
        return ok(
            "this process has all capabilities that limiter needs (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)",
        );
    }
    let names: Vec<_> = missing
        .iter()
        .map(|(needed, _)| needed.to_string())
        .collect();
    problem(
        format!("this process lacks {}", names.join(", ")),
        "run limiter with sudo, or grant the capabilities (docs/security.md)",
    )
}

pub(super) fn bpffs(machine: &Machine) -> Finding {
    match &machine.bpffs {
        Ok(true) => ok(format!("mounted at {BPFFS}")),
        Ok(false) if machine.may_mount => ok(format!("not mounted at {BPFFS}: `attach` mounts it")),
        Ok(false) => problem(
            format!("not mounted at {BPFFS}, and mounting needs CAP_SYS_ADMIN"),
            format!("`mount -t bpf -o mode=0700 bpf {BPFFS}` as root"),
        ),
        Err(why) => error(why),
    }
}
