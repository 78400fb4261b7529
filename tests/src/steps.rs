//! A command that is killed before one of its steps: not at a moment of the clock, but before a system call
//! that changes something, whichever it is.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Of calls of one kind in a row (the maps are pinned one after the other), each of so many is a step.
const EACH: usize = 4;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed before this call.
    Killed(String),
    /// It has fewer steps than that.
    Done(i32),
}

/// Runs `command`, and kills it before its step number `step`, from 0. Must be called in the network
/// namespace where it is to run.
pub fn run_until(command: &mut Command, step: usize) -> io::Result<End> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one system call, between fork and exec.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let mut child = command.spawn()?;
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let end = follow(process, step)?;
    if let End::Killed(_) = end {
        child.kill()?;
        child.wait()?;
    }
    Ok(end)
}

fn follow(process: Pid, step: usize) -> io::Result<End> {
    let mut signal = None;
    let (mut steps, mut last, mut alike) = (0, String::new(), 0);
    let mut options = Some(Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL);
    loop {
        match waitpid(process, None)? {
            WaitStatus::Exited(_, status) => return Ok(End::Done(status)),
            WaitStatus::PtraceSyscall(_) => {
                if let Some(name) = step_of(process)? {
                    alike = if name == last { alike + 1 } else { 0 };
                    if alike % EACH == 0 {
                        if steps == step {
                            return Ok(End::Killed(name));
                        }
                        steps += 1;
                    }
                    last = name;
                }
            }
            // It has become the command.
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                if let Some(options) = options.take() {
                    ptrace::setoptions(process, options)?;
                }
            }
            WaitStatus::Stopped(_, other) => signal = Some(other),
            other => return Err(io::Error::other(format!("{other:?}"))),
        }
        ptrace::syscall(process, signal.take())?;
    }
}

/// What the call that `process` is about to make would change; none where it changes nothing that outlives
/// the process.
fn step_of(process: Pid) -> io::Result<Option<String>> {
    const ENTRY: u8 = 1;
    let call = ptrace::syscall_info(process)?;
    if call.op != ENTRY {
        return Ok(None);
    }
    // SAFETY: this member of the union is in force at the entry to a call.
    let entry = unsafe { call.u.entry };
    let number = i64::try_from(entry.nr).unwrap();
    #[cfg(target_arch = "x86_64")]
    let is_file = [libc::SYS_unlink, libc::SYS_rmdir, libc::SYS_mkdir].contains(&number);
    #[cfg(not(target_arch = "x86_64"))]
    let is_file = false;
    Ok(match number {
        libc::SYS_bpf => match entry.args[0] {
            2 => Some("update of a map".to_owned()),
            6 => Some("pin".to_owned()),
            28 => Some("link".to_owned()),
            34 => Some("detach of the link".to_owned()),
            _ => None,
        },
        libc::SYS_sendto | libc::SYS_sendmsg => Some("message".to_owned()),
        libc::SYS_unlinkat | libc::SYS_mkdirat => Some("file".to_owned()),
        _ if is_file => Some("file".to_owned()),
        _ => None,
    })
}
