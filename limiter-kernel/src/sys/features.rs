//! Features of the running kernel, found by trying them: distributions add features to old versions. Each is tried with a
//! program of a few instructions that is attached to nothing, or with a call that the kernel refuses in any case.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use super::{
    bpf::{self, BPF_TCX_INGRESS, BPF_XDP, Kind},
    instruction::{Instruction, instruction},
};

/// `XDP_PASS`, the result of the programs here.
const PASS: i32 = 2;

/// The features that every program of limiter needs and this kernel lacks, for people. Fails if this process may not try
/// them.
pub fn missing() -> io::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    if !has_compare_and_swap()? {
        missing.push("atomic compare-and-swap in BPF programs");
    }
    if !has_links()? {
        missing.push("links for XDP");
    }
    Ok(missing)
}

/// Returns true if programs can swap a word that has the expected value. A JIT may lack that although the verifier knows it,
/// so the program runs once.
fn has_compare_and_swap() -> io::Result<bool> {
    const COMPARE_AND_SWAP: i32 = 0xf1;
    let program = load(
        &[
            // The word is 1. If r0 is the same, it becomes 2. r0 = the old value + the new one.
            instruction(0x7a, (10, 0), -8, 1),
            instruction(0xb7, (0, 0), 0, 1),
            instruction(0xb7, (1, 0), 0, 2),
            instruction(0xdb, (10, 1), -8, COMPARE_AND_SWAP),
            instruction(0x79, (1, 10), -8, 0),
            instruction(0x0f, (0, 1), 0, 0),
            instruction(0x95, (0, 0), 0, 0),
        ],
        0,
    )?;
    let Some(program) = program else {
        return Ok(false);
    };
    Ok(bpf::run_once(program.as_fd())? == 1 + 2)
}

/// Returns true if links hold XDP programs. The loopback has no native mode, so a kernel with links refuses this one for
/// another reason (`dev_xdp_attach` in net/core/dev.c).
fn has_links() -> io::Result<bool> {
    const LOOPBACK: u32 = 1;
    const NATIVE: u32 = 1 << 2;
    let pass = [
        instruction(0xb7, (0, 0), 0, PASS),
        instruction(0x95, (0, 0), 0, 0),
    ];
    let Some(program) = load(&pass, 0)? else {
        return Ok(false);
    };
    is_known(bpf::link_create(program.as_fd(), LOOPBACK, BPF_XDP, (NATIVE, 0)).map(drop))
}

/// Returns true if packets may be in several buffers, and programs may copy their bytes: `bpf_xdp_get_buff_len` and
/// `bpf_xdp_load_bytes`.
pub fn has_frags() -> io::Result<bool> {
    const IN_SEVERAL_BUFFERS: u32 = 1 << 5;
    const GET_BUFF_LEN: i32 = 188;
    const LOAD_BYTES: i32 = 189;
    let program = load(
        &[
            instruction(0xbf, (6, 1), 0, 0),
            instruction(0x85, (0, 0), 0, GET_BUFF_LEN),
            // Eight bytes from the beginning of the packet to the stack.
            instruction(0xbf, (1, 6), 0, 0),
            instruction(0xb7, (2, 0), 0, 0),
            instruction(0xbf, (3, 10), 0, 0),
            instruction(0x07, (3, 0), 0, -8),
            instruction(0xb7, (4, 0), 0, 8),
            instruction(0x85, (0, 0), 0, LOAD_BYTES),
            instruction(0xb7, (0, 0), 0, PASS),
            instruction(0x95, (0, 0), 0, 0),
        ],
        IN_SEVERAL_BUFFERS,
    )?;
    Ok(program.is_some())
}

/// Returns true if programs can be attached to the network stack (tcx). No interface has index 0, so a kernel with that
/// hook refuses the question for another reason.
pub fn has_tcx() -> io::Result<bool> {
    is_known(bpf::programs(0, BPF_TCX_INGRESS).map(drop))
}

/// Loads an XDP program; `None` if the kernel does not know something in it.
fn load(instructions: &[Instruction], flags: u32) -> io::Result<Option<OwnedFd>> {
    match bpf::load(Kind::Xdp, instructions, flags) {
        Ok(program) => Ok(Some(program)),
        Err(error) if may_not(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns false if the kernel does not know the call (EINVAL).
fn is_known(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Err(error) if may_not(&error) => Err(error),
        result => Ok(result.err().and_then(|error| error.raw_os_error()) != Some(libc::EINVAL)),
    }
}

fn may_not(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_that_does_not_know_a_call_lacks_the_feature() {
        let errors = [libc::EINVAL, libc::ENODEV, libc::EOPNOTSUPP];
        let known = errors.map(|error| is_known(Err(io::Error::from_raw_os_error(error))).ok());
        assert_eq!(known, [Some(false), Some(true), Some(true)]);
        let refused = is_known(Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert!(refused.is_err(), "{refused:?}");
    }
}
