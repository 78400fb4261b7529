//! Pictures of ordinary traffic in files, for `explain`: one for each interface.

use std::io::{ErrorKind, Read as _};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    files::{Folder, Place, name_of},
    plan::flood::Picture,
};

/// The longest file that is read, in bytes.
const LONGEST: u64 = 8 << 20;
/// The most files. Those of interfaces that are gone stay until then.
const FILES: usize = 64;

/// The file of an interface.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    interface: String,
    picture: Picture,
}

fn place() -> Result<Place> {
    Place::lasting("ordinary")
}

fn file_name(interface: &str) -> Result<String> {
    Ok(format!("{}.json", name_of(interface)?))
}

/// Reads the picture of an interface; none if there is none.
pub fn read(interface: &str) -> Result<Option<Picture>> {
    let Some(folder) = place()?.open()? else {
        return Ok(None);
    };
    let name = file_name(interface)?;
    let path = folder.path_of(&name);
    let advice = || {
        format!(
            "{} cannot be used: remove it, and `limiter explain {interface} --save` makes a new one",
            path.display()
        )
    };
    stored(&folder, &name, interface).with_context(advice)
}

fn stored(folder: &Folder, name: &str, interface: &str) -> Result<Option<Picture>> {
    let file = match folder.read(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let stored: Stored = serde_json::from_slice(&text)?;
    if stored.interface != interface {
        bail!("it is of the interface {}", stored.interface);
    }
    if !stored.picture.is_usable() {
        bail!("it is of another version of limiter");
    }
    Ok(Some(stored.picture))
}

/// Replaces the picture of an interface in one step.
pub fn write(interface: &str, picture: Picture) -> Result<()> {
    let folder = place()?.make()?;
    let name = file_name(interface)?;
    folder.bound(FILES, &name);
    let stored = Stored {
        interface: interface.to_owned(),
        picture,
    };
    let path = folder.path_of(&name);
    let written = folder.replace(&name, &serde_json::to_vec(&stored)?);
    written.with_context(|| format!("{} cannot be written", path.display()))
}
