//! Recognizes system calls that change something, before a process makes them.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::io;

use nix::unistd::Pid;

/// A call that changes something, for the life of the process or beyond; or [`LOOK`] or [`QUERY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its effect.
    pub name: String,
    /// True if the effect outlives the process.
    pub lasts: bool,
}

/// Effect of a call that changes nothing: it opens a pin, or queries the pinned object.
pub const LOOK: &str = "look";

/// Effect of a call that changes nothing: it asks which programs an interface has at a hook.
pub const QUERY: &str = "query";

impl Call {
    fn new(name: &str, lasts: bool) -> Self {
        Self {
            name: name.to_owned(),
            lasts,
        }
    }

    /// The call that `process`, stopped by [`stop_before_them`], is about to make; none if it is not one of these.
    pub fn of_stopped(process: Pid) -> io::Result<Option<Self>> {
        let (number, arguments) = stopped_before(process)?;
        Ok(Self::of(number, arguments))
    }

    fn of(number: i64, arguments: [u64; 6]) -> Option<Self> {
        match number {
            libc::SYS_bpf => of_bpf(arguments[0]),
            libc::SYS_sendto | libc::SYS_sendmsg => Some(Self::new("message", true)),
            libc::SYS_openat if arguments[2] & WRITES == 0 => None,
            libc::SYS_flock => Some(Self::new("lock", false)),
            libc::SYS_mount => Some(Self::new("mount", true)),
            libc::SYS_write if arguments[0] == 1 => Some(Self::new("output", false)),
            _ if FILES.contains(&number) => Some(Self::new("file", true)),
            _ => None,
        }
    }
}

/// Number and arguments of the call before which `process` is stopped.
#[cfg(target_env = "gnu")]
fn stopped_before(process: Pid) -> io::Result<(i64, [u64; 6])> {
    let call = nix::sys::ptrace::syscall_info(process)?;
    // SAFETY: this member of the union is valid when the system call filter has stopped a process.
    let about = unsafe { call.u.seccomp };
    Ok((i64::try_from(about.nr).unwrap(), about.args))
}

/// The libraries know the answer's type for glibc alone.
#[cfg(not(target_env = "gnu"))]
fn stopped_before(_: Pid) -> io::Result<(i64, [u64; 6])> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Calls that make, name or remove files.
#[cfg(target_arch = "x86_64")]
const FILES: [i64; 10] = [
    libc::SYS_openat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_creat,
];
#[cfg(not(target_arch = "x86_64"))]
const FILES: [i64; 5] = [
    libc::SYS_openat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
];

/// Other calls that may change something.
const OTHERS: [i64; 6] = [
    libc::SYS_bpf,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_flock,
    libc::SYS_mount,
    libc::SYS_write,
];

/// Makes the kernel stop this process before each of these calls, if it is traced.
pub fn stop_before_them() -> io::Result<()> {
    let statement = |code: u32, jump: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: jump,
        jf: 0,
        k,
    };
    // `struct seccomp_data` begins with the number of the call.
    let mut filter = [statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0); LENGTH];
    let calls = FILES.iter().chain(&OTHERS);
    for (number, (patched, call)) in filter[1..].iter_mut().zip(calls).enumerate() {
        // Jumps to the last statement, past the other comparisons and the statement that allows the call.
        let far = u8::try_from(LENGTH - 3 - number).unwrap_or_default();
        let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        *patched = statement(code, far, u32::try_from(*call).unwrap_or_default());
    }
    let verdict = libc::BPF_RET | libc::BPF_K;
    filter[LENGTH - 2] = statement(verdict, 0, libc::SECCOMP_RET_ALLOW);
    filter[LENGTH - 1] = statement(verdict, 0, libc::SECCOMP_RET_TRACE);
    let program = libc::sock_fprog {
        len: u16::try_from(LENGTH).unwrap_or_default(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its statements are live; the kernel copies them.
    let set = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Statements of the filter: load of the call's number, one for each call, and two ends.
const LENGTH: usize = FILES.len() + OTHERS.len() + 3;

/// Files opened with one of these flags may be changed.
const WRITES: u64 = (libc::O_CREAT | libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) as u64;

/// `enum bpf_cmd`, include/uapi/linux/bpf.h: commands that make or change something, and those that read a pin.
fn of_bpf(command: u64) -> Option<Call> {
    let (name, lasts) = match command {
        0 => ("map", false),
        2 => ("update of a map", true),
        3 => ("deletion in a map", true),
        5 => ("program", false),
        6 => ("pin", true),
        7 | 15 => (LOOK, false),
        16 => (QUERY, false),
        18 => ("types", false),
        22 => ("freeze", false),
        28 => ("link", true),
        29 => ("swap", true),
        34 => ("detach of the link", true),
        _ => return None,
    };
    Some(Call::new(name, lasts))
}
