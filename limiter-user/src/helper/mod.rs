//! The helper process, which keeps the privileges.
//!
//! `export`, `feed` and `notify` talk to others without any privilege ([`crate::sandbox`]). They ask this process, their
//! child, to read attachments and to change bans, which needs privileges. An unnamed socket joins the two. Each ends with the other, even without a
//! question.
//!
//! The helper sends answers, not descriptors. Before Linux 5.19, `bpf(2)` refuses to read even an open map if the
//! process lacks `CAP_BPF` and `kernel.unprivileged_bpf_disabled` is set. Attachments that are made or changed later
//! must be opened anew.

mod channel;

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

use limiter_kernel::sys::bpf;
use serde::{Deserialize, Serialize};

use crate::sandbox;

pub use channel::Channel;

/// The hidden subcommand: `limiter helper`.
pub const VERB: &str = "helper";

/// A question to the helper process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// All attachments: [`crate::observe::Snapshot`].
    Snapshot,
    /// The bans in force on these interfaces, of the origin that the helper was started for.
    Bans(Vec<String>),
    /// A change of these bans on an interface.
    Change(String, limiter_feed::Edit),
    /// The feed ends: its state is to be removed.
    Forget,
}

/// Starts the helper process, and returns the channel to it. The helper inherits the privileges of this process, which
/// may then drop its own. It changes bans of `origin` alone; without one, it only reads.
/// Fails if no process can be started.
pub fn start(origin: Option<&str>) -> io::Result<Channel> {
    let (ours, theirs) = UnixStream::pair()?;
    // The helper must not inherit other descriptors.
    bpf::close_others_on_exec()?;
    // The file of this program, even if another version has replaced it meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("limiter")
        .arg(VERB)
        .args(origin)
        .current_dir("/")
        // Outside the terminal's foreground, so that keys do not send signals to the helper.
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The helper ends with the channel. This process does not wait for it.
    command.spawn()?;
    Channel::new(ours)
}

/// Makes this process the helper: its standard input is the channel.
/// Fails if standard input is not a channel, or privileges cannot be dropped.
pub fn attend() -> anyhow::Result<Channel> {
    // Set the name, because the program was started as /proc/self/exe.
    nix::sys::prctl::set_name(c"limiter")?;
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    sandbox::confine(sandbox::TO_CHANGE)?;
    // Ignore signals: the parent gets them too, and may still ask before it ends. The helper ends with the parent.
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        drop(signal(kind)?);
    }
    Ok(Channel::new(UnixStream::from(socket))?)
}
