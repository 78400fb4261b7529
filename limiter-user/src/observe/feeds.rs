//! The states of feeds, in files that `status` and the exporter read. A file is locked while its feed runs.

use std::{
    fs,
    io::Read,
    os::unix::fs::{FileExt, OpenOptionsExt},
};

use limiter_feed::State;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;

use crate::kernel::state::pins;

const FOLDER: &str = "/run/limiter/feeds";

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
    pub fn open(name: &str) -> anyhow::Result<Option<Self>> {
        fs::create_dir_all(FOLDER)?;
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).mode(0o600);
        let file = options.open(format!("{FOLDER}/{}.{name}", pins::cookie()?))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self(file))),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Writes the state.
    pub fn write(&self, state: &State) -> anyhow::Result<()> {
        let text = serde_json::to_vec(state)?;
        self.0.write_all_at(&text, 0)?;
        Ok(self.0.set_len(text.len() as u64)?)
    }

    /// Forgets the state of a feed that was told to end.
    pub fn forget(&self) {
        let _ = self.0.set_len(0);
    }
}

/// The feeds of this network namespace that run, or were killed.
pub fn all() -> Vec<Feed> {
    let (Ok(found), Ok(namespace)) = (fs::read_dir(FOLDER), pins::cookie()) else {
        return Vec::new();
    };
    let found = found.flatten().filter_map(|it| read(namespace, &it));
    let mut all: Vec<_> = found.collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn read(namespace: u64, file: &fs::DirEntry) -> Option<Feed> {
    let name = file.file_name().into_string().ok()?;
    let name = name.strip_prefix(&format!("{namespace}."))?.to_owned();
    let file = fs::File::open(file.path()).ok()?;
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
