//! The states of feeds, in files that `status` and the exporter read. A file is locked while its feed runs.

use std::{
    fs::{self, Permissions},
    io::Read,
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use limiter_feed::State;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

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

/// The file of a running feed: the number of its network namespace, and its state.
#[derive(Debug)]
pub struct File(Flock<fs::File>);

impl File {
    /// Opens and locks the file of the feed called `name`. None if that feed runs already.
    /// Fails if the file cannot be written.
    pub fn open(name: &str) -> anyhow::Result<Option<Self>> {
        fs::create_dir_all(FOLDER)?;
        // Readers need no privileges, whatever the mask of this process.
        for folder in [Path::new(FOLDER), Path::new("/run/limiter")] {
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).mode(0o600);
        let file = options.open(Path::new(FOLDER).join(name))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self(file))),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Writes the state.
    pub fn write(&self, state: &State) -> anyhow::Result<()> {
        let text = serde_json::to_vec(&(pins::cookie()?, state))?;
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
    let found = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = found.filter_map(|it| it.file_name().into_string().ok());
    let mut all: Vec<_> = names.filter_map(|name| read(&name)).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn read(name: &str) -> Option<Feed> {
    let file = fs::File::open(Path::new(FOLDER).join(name)).ok()?;
    let mut text = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut text).ok()?;
    let (namespace, state): (u64, State) = serde_json::from_slice(&text).ok()?;
    if pins::cookie().ok()? != namespace {
        return None;
    }
    Some(Feed {
        name: name.to_owned(),
        running: Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        state,
    })
}
