//! The process that holds the link of a trial, and ends it.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    time::{ClockId, clock_gettime},
    unistd,
};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
};

use super::{FOLDER, socket, socket_name};
use crate::kernel::{
    error::{Error, Result},
    state::{foreign, foreign::Foreign},
    sys::{
        folder::{Dir, Identity},
        link::Link,
        lock,
        lock::Lock,
    },
};

/// How often it looks whether the link was pinned or detached meanwhile, and for the time: timers do
/// not run while the machine sleeps, but the trial does.
const TICK: Duration = Duration::from_millis(250);
/// How long somebody who asks may keep it from looking.
const ASKING: Duration = Duration::from_millis(200);

/// Holds the link of a trial.
#[derive(Debug)]
pub struct Holder {
    /// A lock on the folder `trial`, as a sign that the link is held.
    lease: File,
    listener: UnixListener,
    link: Link,
    folder: Dir,
    /// On the clock that goes on while the machine sleeps.
    deadline: Duration,
    /// The same for people.
    until: SystemTime,
    terminate: Signal,
    hang_up: Signal,
    terminated: bool,
    /// Since when it waits for the lock.
    over: Option<Instant>,
}

impl Holder {
    /// Makes this process the holder of the link that is its standard input. It belongs to no
    /// terminal and to no session but its own from here on.
    pub fn new(folder: &Path, duration: Duration) -> Result<Self> {
        let failed = |error: io::Error| Error::system("beginning the trial", error);
        let hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let link = leave_session().map_err(failed)?;
        // What is no link of an XDP program says so here.
        link.info()?;
        let gone = || failed(io::ErrorKind::NotFound.into());
        let folder = Dir::walk(folder)?.ok_or_else(gone)?;
        // First the socket, then the sign: what has the sign can be asked.
        let listener = socket::listen(&socket_name(folder.path(), folder.identity()))
            .and_then(UnixListener::from_std)
            .map_err(failed)?;
        let lease = folder.open(FOLDER)?.ok_or_else(gone)?.reopen()?;
        lease.lock().map_err(failed)?;
        Ok(Self {
            lease,
            listener,
            link,
            folder,
            deadline: now()? + duration,
            until: SystemTime::now() + duration,
            terminate,
            hang_up,
            terminated: false,
            over: None,
        })
    }

    /// Holds the link until it is kept or detached by others, or the time is up.
    pub async fn hold(mut self) {
        loop {
            if self.is_kept() || self.is_cleared() {
                return;
            }
            if self.is_over() {
                let since = *self.over.get_or_insert_with(Instant::now);
                match lock::try_lock(&self.folder) {
                    Ok(None) if since.elapsed() < lock::PATIENCE => {}
                    lock => return self.end(lock.ok().flatten()),
                }
            }
            self.wait().await;
        }
    }

    /// Takes the program off before its time.
    pub async fn cancel(mut self) {
        self.terminated = true;
        self.hold().await;
    }

    fn is_kept(&self) -> bool {
        Link::is_pinned(&self.folder)
    }

    /// Whether the folder is the one of this trial, and not a newer attachment's.
    fn has_folder(&self) -> bool {
        self.folder.is_current().unwrap_or(false)
    }

    /// Whether somebody has detached it, and nothing of it is left.
    fn is_cleared(&self) -> bool {
        self.is_detached() && !self.has_folder()
    }

    fn is_over(&self) -> bool {
        self.terminated || self.remaining().is_zero() || self.is_detached()
    }

    fn is_detached(&self) -> bool {
        self.link.info().is_ok_and(|info| info.interface == 0)
    }

    /// Without a clock the trial is over.
    fn remaining(&self) -> Duration {
        self.deadline.saturating_sub(now().unwrap_or(self.deadline))
    }

    /// The end, with the lock of the attachment. Somebody who holds that for too long must not lock people
    /// out of their machine: then the program goes off without it, and the pins stay for the next
    /// command.
    fn end(self, lock: Option<Lock>) {
        if lock.is_some() && self.is_kept() {
            return;
        }
        // Nobody changes that while the lock is held.
        let has_folder = self.has_folder();
        // From here on commands say that nothing is attached, rather than that it is half gone.
        drop(self.lease);
        drop(self.listener);
        // Before limiter is off: until the other program is back, neither of the two runs.
        let foreign = Foreign::open(&self.folder);
        // If this fails, the end of the process does it.
        let _ = self.link.detach();
        if !has_folder {
            return;
        }
        // What stays, or cannot be put back, is for the next command, which says so.
        match foreign {
            Ok(foreign) if lock.is_some() => drop(foreign::clear(&self.folder, foreign)),
            // At worst another program has taken the place, and keeps it.
            Ok(Some(foreign)) => drop(foreign.put_back(&self.folder)),
            _ => {}
        }
    }

    /// Until there is something to look at.
    async fn wait(&mut self) {
        let tick = match self.over {
            Some(_) => lock::RETRY,
            None => self.remaining().min(TICK),
        };
        tokio::select! {
            () = tokio::time::sleep(tick) => {}
            _ = self.terminate.recv() => self.terminated = true,
            // Of a terminal that it no longer belongs to.
            _ = self.hang_up.recv() => {}
            Ok((stream, _)) = self.listener.accept() => {
                // Who is not answered finds out by the closed connection.
                let _ = stream.into_std().and_then(|stream| self.answer(&stream));
            }
        }
    }

    /// Gives the link to root, or to the user whose trial it is, who may open the folder of pins: in a container root
    /// may not.
    fn answer(&self, stream: &UnixStream) -> io::Result<()> {
        if ![0, unistd::geteuid().as_raw()].contains(&socket::peer(stream)?.uid()) {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(ASKING))?;
        stream.set_write_timeout(Some(ASKING))?;
        let ([_], directory) = socket::receive::<1>(stream)?;
        let asked = Identity::of(&File::from(directory).metadata()?);
        if asked != self.folder.identity() || self.is_detached() {
            return Ok(());
        }
        let until = self.until.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = until.unwrap_or_default().as_secs();
        let link = self.link.share().map_err(io::Error::other)?;
        socket::send(stream, &seconds.to_le_bytes(), link.as_fd())
    }
}

/// Leaves the session and its terminal, and takes the link from standard input.
fn leave_session() -> io::Result<Link> {
    unistd::setsid()?;
    // It was started as /proc/self/exe.
    nix::sys::prctl::set_name(c"limiter")?;
    let link: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Link::from(link))
}

/// Time since boot, with what the machine slept.
fn now() -> Result<Duration> {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(Duration::from)
        .map_err(|error| Error::system("reading the clock", error.into()))
}
