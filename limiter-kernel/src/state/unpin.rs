//! Removing pins: BPF objects and empty folders. Other files are left alone, and reported.

use crate::{Error, Result, program::bans, state::pins, sys::Dir};

/// Removes the pins in the folder of an attachment.
pub fn empty(folder: &Dir) -> Result<()> {
    bans::clear(folder);
    let mut strangers = Vec::new();
    for name in folder.names()? {
        let is_generation = pins::generation_number(&name).is_some();
        if is_generation || !folder.unpin(&name)? {
            strangers.extend(remove_folder(folder, &name, is_generation)?);
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    strangers.sort_unstable();
    let path = folder.path().to_owned();
    let interface = pins::interface_of(&path).unwrap_or_default();
    Err(Error::LeftAlone(interface, path, strangers.join(", ")))
}

/// Removes the pins in the folder of an attachment and the folder itself. Then removes its parents that are
/// empty and belong to this user.
pub fn remove(folder: &Dir) -> Result<()> {
    empty(folder)?;
    folder.remove()?;
    clear_above(folder);
    Ok(())
}

/// Removes the parents of a removed folder, as far as they are empty and belong to this user.
pub fn clear_above(folder: &Dir) {
    let mut above = folder.parent();
    while let Some(empty) = above.filter(|above| above.is_own() && above.parent().is_some()) {
        // The folder may not be empty, or not for long.
        if !empty.remove().unwrap_or(false) {
            return;
        }
        above = empty.parent();
    }
}

/// Removes a folder, with its pins if `unpins`. Returns the names that are left.
pub fn remove_folder(parent: &Dir, name: &str, unpins: bool) -> Result<Vec<String>> {
    let folder = match parent.open(name) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(Vec::new()),
        Err(Error::Stranger(..)) => return Ok(vec![name.to_owned()]),
        Err(error) => return Err(error),
    };
    let mut strangers = Vec::new();
    if unpins {
        for own in folder.names()? {
            if !folder.unpin(&own)? {
                strangers.push(format!("{name}/{own}"));
            }
        }
    }
    if strangers.is_empty() && !folder.remove()? {
        strangers.push(name.to_owned());
    }
    Ok(strangers)
}
