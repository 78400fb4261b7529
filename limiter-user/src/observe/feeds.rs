//! The states of feeds, in files that `status` and the exporter read. A file is locked while its feed runs.

use std::{
    env, fs,
    io::Read,
    os::unix::fs::FileExt,
    path::PathBuf,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Result, anyhow};
use limiter_feed::State;
use limiter_kernel::state::pins;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::geteuid,
};
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;

use crate::files::Folder;

/// Attempts to lock a file. `status`, and a feed that removes old files, lock it for a moment.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The time for which the state of a feed that was killed is shown.
const SHOWN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest file, in bytes.
const LONGEST: u64 = 1 << 16;

/// The state of a feed, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Feed {
    /// Name of the feed, and of its bans' origin.
    pub name: String,
    /// True while its process runs.
    pub running: bool,
    /// Its state.
    #[serde(flatten)]
    pub state: State,
}

/// The file of a running feed. Its name has the number of the network namespace.
#[derive(Debug)]
pub struct File(Flock<fs::File>);

impl File {
    /// Opens and locks the file of the feed called `name`. None if that feed runs already.
    /// Fails if the file cannot be written.
    pub fn open(name: &str) -> Result<Option<Self>> {
        let (base, names) = place()?;
        let folder = Folder::make(&base, names)?;
        clear(&folder);
        let name = file_name(name)?;
        for _ in 0..TRIES {
            let file = folder.file(&name)?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                // A feed that has ended meanwhile has removed the file.
                Ok(file) if !folder.leads_to(&name, &*file) => {}
                Ok(file) => return Ok(Some(Self(file))),
                Err((_, Errno::EWOULDBLOCK)) => thread::sleep(PAUSE),
                Err((_, error)) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Writes the state.
    pub fn write(&self, state: &State) -> Result<()> {
        let text = serde_json::to_vec(state)?;
        self.0.write_all_at(&text, 0)?;
        Ok(self.0.set_len(text.len() as u64)?)
    }

    /// Empties the file of a feed that was told to end. Its process may not remove it.
    pub fn empty(&self) {
        let _ = self.0.set_len(0);
    }
}

/// The folder of the files: an existing one, and the names below it. Root's does not depend on variables, which may be
/// those of another user.
fn place() -> Result<(PathBuf, &'static [&'static str])> {
    // Of several folders of the unit, the first.
    let variable = |name| {
        let value = env::var(name).ok()?;
        let first = value.split(':').next().unwrap_or_default();
        (!first.is_empty()).then(|| PathBuf::from(first))
    };
    if geteuid().is_root() {
        Ok(("/run".into(), &["limiter", "feeds"]))
    } else if let Some(own) = variable("RUNTIME_DIRECTORY") {
        Ok((own, &["feeds"]))
    } else if let Some(own) = variable("XDG_RUNTIME_DIR") {
        Ok((own, &["limiter", "feeds"]))
    } else {
        Err(anyhow!(
            "only root writes to /run/limiter/feeds: set RUNTIME_DIRECTORY to a folder of user {}, or RuntimeDirectory= in the unit",
            geteuid()
        ))
    }
}

/// The name of a feed's file in this network namespace.
fn file_name(name: &str) -> Result<String> {
    Ok(format!("{}.{name}", pins::cookie()?))
}

/// Removes the file of a feed that was told to end.
pub fn remove(name: &str) -> Result<()> {
    let (base, names) = place()?;
    match Folder::open(&base, names)? {
        Some(folder) => Ok(folder.remove(&file_name(name)?)?),
        None => Ok(()),
    }
}

/// Removes the files of feeds that ended, or were killed some time ago, in all network namespaces.
fn clear(folder: &Folder) {
    for name in folder.names().unwrap_or_default() {
        let Ok(file) = folder.read(&name) else {
            continue;
        };
        let is_old = |metadata: &fs::Metadata| {
            let age = SystemTime::now().duration_since(metadata.modified().ok()?);
            Some(metadata.len() == 0 || age.ok()? > SHOWN)
        };
        let is_old = file.metadata().ok().as_ref().and_then(is_old);
        if is_old == Some(true)
            && let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && folder.leads_to(&name, &*file)
        {
            // Without it, the next feed tries again.
            let _ = folder.remove(&name);
        }
    }
}

/// The feeds of this network namespace that run, or were killed.
pub fn all() -> Vec<Feed> {
    let folder = place().and_then(|(base, names)| Ok(Folder::open(&base, names)?));
    let (Ok(Some(folder)), Ok(namespace)) = (folder, pins::cookie()) else {
        return Vec::new();
    };
    let names = folder.names().unwrap_or_default();
    let found = names
        .iter()
        .filter_map(|name| read(namespace, &folder, name));
    let mut all: Vec<_> = found.collect();
    all.sort_by(|first, second| first.name.cmp(&second.name));
    all
}

fn read(namespace: u64, folder: &Folder, name: &str) -> Option<Feed> {
    let file = folder.read(name).ok()?;
    let name = name.strip_prefix(&format!("{namespace}."))?.to_owned();
    let mut text = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut text).ok()?;
    // A shorter state may be in front of the rest of a longer one.
    let state = Deserializer::from_slice(&text).into_iter().next()?.ok()?;
    Some(Feed {
        name,
        running: Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        state,
    })
}
