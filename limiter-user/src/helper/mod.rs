//! The helper process, which keeps the privileges.
//!
//! `export`, `feed` and `notify` talk to others without any privilege ([`crate::sandbox`]). They ask this process, their
//! child, to read attachments and to change bans, which needs privileges. An unnamed socket joins the two. Each ends with the other, even without a
//! question. `top` has a child of its own, for the commands that its user asks for.
//!
//! The helper sends answers, not descriptors. Before Linux 5.19, `bpf(2)` refuses to read even an open map if the
//! process lacks `CAP_BPF` and `kernel.unprivileged_bpf_disabled` is set. Attachments that are made or changed later
//! must be opened anew.

mod channel;
mod deed;
mod dial;

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use tokio::signal::unix::{SignalKind, signal};

use limiter_feed::Dial;
use limiter_kernel::sys::bpf;
use serde::{Deserialize, Serialize};

use crate::{
    observe::request::{AboutBans, AboutSource},
    sandbox,
};

pub use channel::Channel;
pub use deed::{Deed, Done, Verb};

/// The hidden subcommand: `limiter helper`.
pub const VERB: &str = "helper";

/// The hidden subcommand of the process that carries out what is asked for in the live view: `limiter deeds`.
pub const DEEDS: &str = "deeds";

/// A question to the helper process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// All attachments: [`crate::observe::Snapshot`].
    Snapshot,
    /// The counters of all attachments alone: [`crate::observe::Counted`].
    Counts,
    /// Everything about a source: [`crate::observe::request::Answer`].
    Check(AboutSource),
    /// The bans of all origins on an interface: [`crate::observe::request::Answer`].
    AllBans(AboutBans),
    /// The bans in force on these interfaces, of the origin that the helper was started for.
    Bans(Vec<String>),
    /// A change of these bans on an interface.
    Change(String, limiter_config::bans::Edit),
    /// The flood that the history has, for `notify`: dropped packets per second, and the milliseconds for which they last.
    /// It is answered by nothing, and heard only as the first question.
    Floods(u64, u64),
    /// The feed ends: its state is to be removed.
    Forget,
}

/// Starts the helper process, and returns the channel to it. The helper inherits the privileges of this process, which
/// may then drop its own. It changes bans of `origin` alone; without one, it only reads.
/// Fails if no process can be started.
pub fn start(origin: Option<&str>) -> io::Result<Channel> {
    let words: Vec<_> = [VERB].into_iter().chain(origin).collect();
    start_with(&words, Stdio::null(), None)
}

/// Starts the process that carries out the [`Deed`]s of the live view, and returns the channel to it. `session`: the
/// variable and the value by which commands know the user's SSH session.
/// Fails if no process can be started.
pub fn start_deeds(session: Option<(&str, &str)>) -> io::Result<Channel> {
    start_with(&[DEEDS], Stdio::null(), session)
}

/// Starts the helper process for a feed from the Unix socket at `path`, and returns the channel to it, and the means to
/// connect to the socket.
/// Fails if no process can be started.
pub fn start_at(origin: &str, path: &str) -> io::Result<(Channel, Dial)> {
    let (ours, theirs) = UnixStream::pair()?;
    let words = [VERB, origin, path];
    let channel = start_with(&words, OwnedFd::from(theirs).into(), None)?;
    Ok((channel, dial::through(ours)))
}

fn start_with(words: &[&str], out: Stdio, variable: Option<(&str, &str)>) -> io::Result<Channel> {
    let (ours, theirs) = UnixStream::pair()?;
    // The helper must not inherit other descriptors.
    bpf::close_others_on_exec()?;
    // The file of this program, even if another version has replaced it meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("limiter")
        .args(words)
        .envs(variable)
        .current_dir("/")
        // Outside the terminal's foreground, so that keys do not send signals to the helper.
        .process_group(0)
        .stdin(OwnedFd::from(theirs))
        .stdout(out)
        .stderr(Stdio::null());
    // The helper ends with the channel. This process does not wait for it.
    command.spawn()?;
    Channel::new(ours)
}

/// Makes this process the helper: its standard input is the channel. With a `path`, its standard output is the socket
/// through which it hands over connections to that path.
/// Fails if standard input is not a channel, or privileges cannot be dropped.
pub fn attend(path: Option<PathBuf>) -> anyhow::Result<Channel> {
    let socket = attached()?;
    sandbox::confine(sandbox::TO_CHANGE)?;
    if let Some(path) = path {
        let feed = io::stdout().as_fd().try_clone_to_owned()?;
        nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        dial::attend(feed, path);
    }
    listen(socket)
}

/// Makes this process the one that carries out [`Deed`]s: its standard input is the channel. Commands that it starts may
/// read and change attachments, and no more.
/// Fails if standard input is not a channel, or privileges cannot be dropped.
pub fn attend_deeds() -> anyhow::Result<Channel> {
    let socket = attached()?;
    sandbox::confine_with_children(sandbox::TO_CHANGE)?;
    listen(socket)
}

/// The socket that is this process's standard input.
fn attached() -> anyhow::Result<OwnedFd> {
    // Set the name, because the program was started as /proc/self/exe.
    nix::sys::prctl::set_name(c"limiter")?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

fn listen(socket: OwnedFd) -> anyhow::Result<Channel> {
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
