//! Stops a command before a chosen system call that changes something, and kills the command or refuses the call.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::{
    calls::{Call, LOOK, QUERY, stop_before_them},
    command::prepared,
    hosts::Hosts,
    objects::Object,
};

/// Of equal calls in a row, such as pinning the maps, one in this many is a step.
const EACH: usize = 8;

/// End of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The command was killed before this call.
    Killed(String),
    /// The command ended by itself, with this exit status.
    Done(i32),
}

/// A fault at a call that a command is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The command is killed (`kill -9`), and the call is not made.
    Kill,
    /// The call is not made, and the command gets this error number.
    Refuse(i32),
}

/// Result of a command that was stopped before its calls.
#[derive(Debug)]
pub struct Stopped {
    /// The command's end.
    pub end: End,
    /// The command's standard output.
    pub stdout: String,
    /// The command's standard error.
    pub stderr: String,
    /// Objects that the command held in the kernel at the time of the fault.
    pub held: Vec<Object>,
    /// The last fault.
    pub fault: Fault,
}

/// Counts the steps of a command.
#[derive(Debug, Default)]
pub struct Steps {
    last: String,
    alike: usize,
    count: usize,
}

impl Steps {
    /// The number of steps up to this call.
    pub fn with(&mut self, call: &Call) -> usize {
        self.alike = if call.name == self.last {
            self.alike + 1
        } else {
            0
        };
        self.last.clone_from(&call.name);
        self.count += usize::from(self.alike.is_multiple_of(EACH));
        self.count
    }
}

/// Kills `command` on the server of `hosts` before its first step, then before its second one, until it completes. Only
/// calls with an effect that outlives the process are steps. Calls `before` and `after` each time, `after` with the
/// number of the step and its description.
pub fn kill_at_each_step(
    hosts: &Hosts,
    command: &[&str],
    mut before: impl FnMut(),
    mut after: impl FnMut(usize, &str),
) {
    const MOST: usize = 200;
    for step in 0..MOST {
        before();
        let mut steps = Steps::default();
        let run = || {
            run_with(&mut prepared(command), |call| {
                match call.lasts && steps.with(call) > step {
                    true => Fault::Kill,
                    false => Fault::None,
                }
            })
        };
        let end = hosts.server.namespace.run(run).unwrap().unwrap().end;
        after(step, &format!("killed before step {step}, {end:?}"));
        if let End::Done(status) = end {
            assert_eq!(status, 0);
            assert!(step > 5, "only {step} steps");
            return;
        }
    }
    panic!("more than {MOST} steps");
}

/// Runs `command`, and applies the result of `fault` before each call that changes something. Must be called in the
/// network namespace of the command.
pub fn run_with(
    command: &mut Command,
    mut fault: impl FnMut(&Call) -> Fault,
) -> io::Result<Stopped> {
    run_traced(command, |call| match call.name.as_str() {
        LOOK | QUERY => Fault::None,
        _ => fault(call),
    })
}

/// Runs `command`, and calls `meanwhile` before its read number `look` of a pin, from 0. Returns false if the command
/// made fewer reads. Must be called in the network namespace of the command.
pub fn run_meanwhile(
    command: &mut Command,
    look: usize,
    meanwhile: impl Fn(),
) -> io::Result<(Stopped, bool)> {
    let mut looked = 0;
    let stopped = run_traced(command, |call| {
        if call.name == LOOK {
            if looked == look {
                meanwhile();
            }
            looked += 1;
        }
        Fault::None
    })?;
    Ok((stopped, looked > look))
}

/// Runs `command` like [`run_with`], and calls `fault` also before calls that only ask.
pub fn run_traced(
    command: &mut Command,
    mut fault: impl FnMut(&Call) -> Fault,
) -> io::Result<Stopped> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            ptrace::traceme()?;
            stop_before_them()
        })
    };
    let mut child = command.spawn()?;
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut last = Fault::None;
    let noted = |call: &Call| {
        let now = fault(call);
        if now != Fault::None {
            last = now;
        }
        now
    };
    let (end, held) = follow(process, noted)?;
    if let End::Killed(_) = end {
        child.kill()?;
        child.wait()?;
    }
    let (stdout, stderr) = outputs(&mut child)?;
    Ok(Stopped {
        end,
        stdout,
        stderr,
        held,
        fault: last,
    })
}

/// The command's whole output, which fits into the pipes.
fn outputs(child: &mut Child) -> io::Result<(String, String)> {
    let (mut out, mut err) = (String::new(), String::new());
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut out)?;
    }
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut err)?;
    }
    Ok((out, err))
}

fn follow(process: Pid, mut fault: impl FnMut(&Call) -> Fault) -> io::Result<(End, Vec<Object>)> {
    const AT_CALL: i32 = ptrace::Event::PTRACE_EVENT_SECCOMP as i32;
    let mut held = Vec::new();
    let mut options = Some(Options::PTRACE_O_TRACESECCOMP | Options::PTRACE_O_EXITKILL);
    loop {
        let mut signal = None;
        match waitpid(process, None)? {
            WaitStatus::Exited(_, status) => return Ok((End::Done(status), held)),
            WaitStatus::PtraceEvent(_, _, AT_CALL) => {
                if let Some(call) = Call::of_stopped(process)? {
                    let fault = fault(&call);
                    if fault != Fault::None {
                        held.extend(Object::all_of(process));
                    }
                    match fault {
                        Fault::None => {}
                        Fault::Kill => return Ok((End::Killed(call.name), held)),
                        Fault::Refuse(error) => refuse(process, error)?,
                    }
                }
            }
            // The process has become the command.
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                if let Some(options) = options.take() {
                    ptrace::setoptions(process, options)?;
                }
            }
            WaitStatus::Stopped(_, other) => signal = Some(other),
            other => return Err(io::Error::other(format!("{other:?}"))),
        }
        ptrace::cont(process, signal)?;
    }
}

/// Keeps `process` from making the call, and makes the call return `error`.
#[cfg(target_arch = "x86_64")]
fn refuse(process: Pid, error: i32) -> io::Result<()> {
    let mut registers = ptrace::getregs(process)?;
    // No call has this number; the return value is set below.
    registers.orig_rax = u64::MAX;
    registers.rax = i64::from(-error).cast_unsigned();
    Ok(ptrace::setregs(process, registers)?)
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse(_: Pid, _: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
