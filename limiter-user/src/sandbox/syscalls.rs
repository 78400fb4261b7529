//! Seccomp filters: restrict the system calls.
//!
//! There are three filters, and the strictest answer holds. A dangerous system call ends the process at once (SIGSYS,
//! which the kernel logs). Any other system call that is not allowed fails with `EPERM`.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::{Error, Result};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System calls that limiter never makes once it runs.
const DANGEROUS: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// System calls that are allowed with any arguments: on open descriptors, memory, time, signals to the process itself,
/// and threads.
const ALLOWED: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older forms of the allowed system calls, which other architectures never had.
#[cfg(target_arch = "x86_64")]
const ALLOWED_TOO: &[c_long] = &[libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_select];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_TOO: &[c_long] = &[];

/// Requests on a socket: set blocking mode, get the number of bytes to read.
const SOCKET: [libc::Ioctl; 2] = [libc::FIONBIO, libc::FIONREAD];

/// Requests for a descriptor's flags.
const FLAGS: [i32; 5] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
];

/// Allows the system calls of a process that has all descriptors open.
pub fn allow_few() -> Result<()> {
    refuse_dangerous(true)?;
    // A filter cannot read the arguments of `clone3`, and cannot tell a thread from a process. After `ENOSYS` the C
    // library uses `clone`.
    let enosys = errno(libc::ENOSYS);
    install(
        [(libc::SYS_clone3, Vec::new())].into(),
        SeccompAction::Allow,
        enosys,
    )?;
    install(allowed()?, errno(libc::EPERM), SeccompAction::Allow)
}

/// Ends the process at any dangerous system call except `bpf(2)`.
pub fn refuse_dangerous_but_bpf() -> Result<()> {
    refuse_dangerous(false)
}

fn refuse_dangerous(bpf_too: bool) -> Result<()> {
    let bpf = bpf_too.then_some(&libc::SYS_bpf);
    let rules = DANGEROUS.iter().chain(bpf).map(|call| (*call, Vec::new()));
    install(
        rules.collect(),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
    )
}

fn allowed() -> Result<Rules> {
    let any = ALLOWED.iter().chain(ALLOWED_TOO);
    let mut rules: Rules = any.map(|call| (*call, Vec::new())).collect();
    let mut only = |call: c_long, cases: Result<Vec<SeccompRule>>| {
        rules.insert(call, cases?);
        Ok(())
    };
    // Forbids executable memory.
    let executable = Is::MaskedEq(libc::PROT_EXEC as u64);
    only(libc::SYS_mmap, case(2, executable.clone(), 0))?;
    only(libc::SYS_mprotect, case(2, executable, 0))?;
    // Allows threads, but not processes.
    let thread = libc::CLONE_THREAD as u64;
    only(libc::SYS_clone, case(0, Is::MaskedEq(thread), thread))?;
    only(libc::SYS_clone3, Ok(Vec::new()))?;
    only(libc::SYS_socketpair, case(0, Is::Eq, libc::AF_UNIX as u64))?;
    only(libc::SYS_prctl, case(0, Is::Eq, libc::PR_SET_NAME as u64))?;
    // Allows signals only to this process, by `raise` of either C library.
    let own = u64::from(std::process::id());
    only(libc::SYS_tgkill, case(0, Is::Eq, own))?;
    only(libc::SYS_tkill, case(0, Is::Eq, own))?;
    let ways = SOCKET.iter().map(|way| rule(1, Is::Eq, request(*way)));
    only(libc::SYS_ioctl, ways.collect())?;
    let ways = FLAGS
        .iter()
        .map(|way| rule(1, Is::Eq, u64::from(way.cast_unsigned())));
    only(libc::SYS_fcntl, ways.collect())?;
    Ok(rules)
}

/// The argument's type is signed in one C library, and unsigned in the other.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "see above: the lower half is looked at"
)]
const fn request(way: libc::Ioctl) -> u64 {
    way as u64
}

fn case(argument: u8, is: Is, value: u64) -> Result<Vec<SeccompRule>> {
    rule(argument, is, value).map(|rule| vec![rule])
}

/// A rule for one argument. The kernel reads only the lower half of these arguments.
fn rule(argument: u8, is: Is, value: u64) -> Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, Length::Dword, is, value & 0xffff_ffff);
    condition
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(failed)
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}

fn install(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<()> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let filter = SeccompFilter::new(rules, others, these, architecture).map_err(failed)?;
    let program = BpfProgram::try_from(filter).map_err(failed)?;
    apply_filter(&program).map_err(|error| Error::new("the system call filter", error))
}

fn failed(error: seccompiler::BackendError) -> Error {
    Error::new("the system call filter", error)
}
