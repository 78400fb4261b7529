//! Asking the holder of a trial for its link.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
    thread,
    time::{Duration, SystemTime},
};

use super::{FOLDER, interface_of, is_held, socket, socket_name};
use crate::kernel::{
    error::{Error, Result},
    sys::folder::Dir,
};

/// A holder that is not stopped answers within microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// A link that a process holds.
#[derive(Debug)]
pub struct Held {
    /// The link.
    pub link: OwnedFd,
    /// When it ends by itself.
    pub until: SystemTime,
}

/// The link of the attachment whose pins are in `folder`, if it is on trial.
pub fn ask(folder: &Dir) -> Result<Option<Held>> {
    const TRIES: u32 = 5;
    for _ in 0..TRIES {
        if let Some(held) = ask_once(folder, &folder.reopen()?)? {
            return Ok(Some(held));
        }
        let Some(trial) = folder.open(FOLDER)? else {
            return Ok(None);
        };
        if !is_held(&trial.reopen()?) {
            return Ok(None);
        }
        // A process that is killed loses its descriptors one by one.
        thread::sleep(Duration::from_millis(10));
    }
    Err(Error::TrialElsewhere(interface_of(folder.path())))
}

fn ask_once(folder: &Dir, directory: &File) -> Result<Option<Held>> {
    let failed = |error| Error::system("asking the holder of the trial", error);
    let name = socket_name(folder.path(), folder.identity());
    let stream = match socket::connect(&name, PATIENCE) {
        Ok(stream) => stream,
        Err(error) if is_absence(&error) => return Ok(None),
        // Others wait for an answer, more than the kernel lets queue.
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            return Err(Error::Busy(PATIENCE.as_secs()));
        }
        Err(error) => return Err(failed(error)),
    };
    let holder = socket::peer(&stream).map_err(failed)?;
    // Anybody may listen on an abstract name. Whose folder it is may put there whatever he likes anyway.
    if ![0, folder.owner()].contains(&holder.uid()) {
        return Ok(None);
    }
    let answer = socket::send(&stream, &[0], directory.as_fd())
        .and_then(|()| socket::receive::<{ size_of::<u64>() }>(&stream));
    match answer {
        Ok((seconds, link)) => {
            let seconds = Duration::from_secs(u64::from_le_bytes(seconds));
            let until = SystemTime::UNIX_EPOCH.checked_add(seconds);
            let until = until.ok_or_else(|| failed(ErrorKind::InvalidData.into()))?;
            Ok(Some(Held { link, until }))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::TrialSilent {
            interface: interface_of(folder.path()),
            process: holder.pid(),
        }),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Nobody is there, or is about to go.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
    )
}
