//! A Unix socket for users without privileges: `status`, `top`, `check` and `bans`. Members of its group may connect.

use std::{
    collections::VecDeque,
    fs,
    io::{self, ErrorKind},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::stat::{Mode, umask},
    unistd::{Gid, getegid, geteuid, setegid},
};
use tokio::{
    net,
    sync::Mutex,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::Collection;
use crate::{
    helper::{Channel, Question},
    observe::request::{Request, SOCKET},
};

/// Maximum number of connections. One more connection replaces the oldest one.
const CONNECTIONS: usize = 16;
/// Timeout for a request.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Timeout for an answer to be taken.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Maximum bytes of a request.
const REQUEST_MAX: usize = 4 << 10;
/// Pause after a question to the helper, as a multiple of the time that the question took.
const PAUSE: u32 = 4;

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    listener: net::UnixListener,
    /// Its path.
    pub path: PathBuf,
}

impl Socket {
    /// Makes the socket, for this user and a group. Replaces a socket that nobody listens on.
    ///
    /// # Errors
    /// Another user could have made the folder, or could replace the socket, or the path is in use.
    pub fn bind(path: Option<&Path>, group: Gid) -> Result<Self> {
        let path = path.unwrap_or(Path::new(SOCKET));
        let shown = path.display();
        let failed = || format!("{shown} cannot be a socket");
        let listener = bind(path, group).with_context(failed);
        let listener = listener.map_err(|error| anyhow::anyhow!("{error:#}"))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: net::UnixListener::from_std(listener)?,
            path: path.to_owned(),
        })
    }

    /// Answers requests.
    pub async fn run(self, collection: Collection) -> ! {
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        let turn = Arc::new(Mutex::new(()));
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                sleep(REQUEST_TIME).await;
                continue;
            };
            by_age.retain(|connection| !connection.is_finished());
            if by_age.len() >= CONNECTIONS
                && let Some(oldest) = by_age.pop_front()
            {
                oldest.abort();
            }
            let answering = serve(stream, collection.clone(), Arc::clone(&turn));
            let connection = tokio::spawn(async {
                // A client's errors are not reported.
                let _ = answering.await;
            });
            by_age.push_back(connection.abort_handle());
        }
    }
}

fn bind(path: &Path, group: Gid) -> Result<UnixListener> {
    let folder = path
        .parent()
        .filter(|folder| folder.is_absolute())
        .context("write a full path")?;
    if path == Path::new(SOCKET) {
        let made = fs::DirBuilder::new().mode(0o755).create(folder);
        made.or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
    }
    let metadata = fs::symlink_metadata(folder)?;
    let is_own = [0, geteuid().as_raw()].contains(&metadata.uid());
    ensure!(
        metadata.is_dir() && is_own && metadata.mode() & 0o022 == 0,
        "other users could replace it in {}: name a folder of root that only root may change",
        folder.display()
    );
    match UnixStream::connect(path) {
        Ok(_) => bail!("another process listens there: end it, or choose another path"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
            ensure!(
                is_socket,
                "a file is there: remove it, or choose another path"
            );
            fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    // The kernel makes the socket with this group and mode, so that there is no moment with others.
    let before = (umask(Mode::from_bits_truncate(0o117)), getegid());
    let bound = match setegid(group) {
        Ok(()) => UnixListener::bind(path),
        Err(error) => Err(error.into()),
    };
    umask(before.0);
    setegid(before.1)?;
    let listener = bound?;
    let is_of_group = fs::symlink_metadata(path)?.gid() == group.as_raw();
    ensure!(
        is_of_group,
        "it has another group, because of the folder's set-group-ID bit: name another folder"
    );
    Ok(listener)
}

/// Answers one request. `turn`: questions to the helper are asked one after the other.
async fn serve(
    stream: net::UnixStream,
    collection: Collection,
    turn: Arc<Mutex<()>>,
) -> io::Result<()> {
    let mut channel = Channel::limited(stream, REQUEST_MAX);
    let Some(request) = timeout(REQUEST_TIME, channel.receive()).await?? else {
        return Ok(());
    };
    let question = match request {
        Request::Snapshot => {
            let latest = collection.latest().await;
            let latest = latest.as_ref().map(|reading| &reading.snapshot);
            return timeout(ANSWER_TIME, channel.send_any(&latest)).await?;
        }
        Request::Check(about) => Question::Check(about),
        Request::Bans(about) => Question::AllBans(about),
    };
    let answer = {
        let _turn = turn.lock().await;
        let begun = Instant::now();
        let answer = collection.ask(question).await;
        // Clients that ask all the time take a fifth of one CPU at most.
        sleep(begun.elapsed() * PAUSE).await;
        answer
    };
    timeout(ANSWER_TIME, channel.send_any(&answer)).await?
}
