//! Starting the process that holds the link of a trial.

use std::{
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{FOLDER, VERB, interface_of};
use crate::kernel::{
    error::{Error, Result},
    sys::{bpf, folder::Dir, link::Link},
};

/// What the holder says when the trial is on.
pub const READY: &str = "ready\n";

/// How long it may take to say that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives the link to a process that ends the trial after `duration`. The caller has the lock of the
/// attachment, and has pinned everything else in `folder`.
pub fn begin(link: &Link, folder: &Dir, duration: Duration) -> Result<()> {
    let failed = |why: String| Error::TrialNotStarted {
        interface: interface_of(folder.path()),
        why,
        advice: "nothing is attached now; without --try no process is needed",
    };
    folder.make(FOLDER)?;
    let (mut child, said) = start(link, folder, duration)?;
    match hear(said) {
        Ok(said) if said == READY => Ok(()),
        heard => {
            // It may have the link still.
            let _ = child.kill();
            let _ = child.wait();
            Err(failed(reason(heard)))
        }
    }
}

/// The link is the child's standard input, what it has to say its standard output: those are the two
/// descriptors that a child can be given without more ado.
fn start(link: &Link, folder: &Dir, duration: Duration) -> Result<(Child, UnixStream)> {
    let failed = |error| Error::system("starting the process that ends the trial", error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // Whatever else this process was given (a script's lock, a pipe) is not to be held for as long.
    bpf::close_others_on_exec().map_err(failed)?;
    // This binary, even if another version has taken its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("limiter")
        .arg(VERB)
        .arg(folder.path())
        .arg(duration.as_millis().to_string())
        .env_clear()
        .current_dir("/")
        .stdin(link.share()?)
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null());
    Ok((command.spawn().map_err(failed)?, ours))
}

/// Everything that the child says before it closes its standard output.
fn hear(mut said: UnixStream) -> io::Result<String> {
    let mut text = String::new();
    said.set_read_timeout(Some(PATIENCE))?;
    said.read_to_string(&mut text)?;
    Ok(text)
}

fn reason(heard: io::Result<String>) -> String {
    match heard {
        Ok(said) if said.is_empty() => "it ended at once".to_owned(),
        Ok(said) => said.trim_end().to_owned(),
        Err(error) => error.to_string(),
    }
}
