//! Starting the process that keeps the privileges, and being it.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
};

use tokio::signal::unix::{SignalKind, signal};

use super::{Channel, VERB};
use crate::{kernel::sys::bpf, sandbox};

/// Starts one, and gives the channel to it. It inherits the privileges of this process, which may give up
/// its own from then on.
///
/// # Errors
///
/// Where no process can be started.
pub fn start() -> io::Result<Channel> {
    let (ours, theirs) = UnixStream::pair()?;
    // Whatever else this process was given is none of its business.
    bpf::close_others_on_exec()?;
    // This binary, even if another version has taken its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("limiter")
        .arg(VERB)
        .current_dir("/")
        // Not in the foreground of a terminal: its keys are not for this process.
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // It ends with the channel; nobody waits for it.
    command.spawn()?;
    Channel::new(ours)
}

/// Makes this process the one that was started: the channel is its standard input.
///
/// # Errors
///
/// Where it is none, or privileges that are not needed cannot be given up.
pub fn attend() -> anyhow::Result<Channel> {
    // It was started as /proc/self/exe.
    nix::sys::prctl::set_name(c"limiter")?;
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    sandbox::confine()?;
    // The other one is told to end too, and answers what it was asked before it does: only its end is the end.
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        drop(signal(kind)?);
    }
    Ok(Channel::new(UnixStream::from(socket))?)
}
