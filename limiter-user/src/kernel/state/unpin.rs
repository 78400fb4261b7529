//! Removing pins: only those with limiter's names and types. Other files are left alone, and reported.

use crate::kernel::{
    error::{Error, Result},
    program::{maps, object},
    state::{foreign, pins, record},
    sys::{
        folder::{Dir, Kind},
        link,
    },
};

/// The name of a folder that layouts before 8 had among their pins.
const TRIAL: &str = "trial";

/// Removes limiter's pins in the folder of an attachment.
pub fn empty(folder: &Dir) -> Result<()> {
    let mut strangers = Vec::new();
    for name in folder.names()? {
        if let Some(number) = pins::generation_number(&name) {
            strangers.extend(generation(folder, number)?);
        } else if !remove_one(folder, &name)? {
            strangers.push(name);
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    strangers.sort_unstable();
    Err(Error::LeftAlone {
        interface: pins::interface_of(folder.path()).unwrap_or_default(),
        folder: folder.path().to_owned(),
        names: strangers.join(", "),
    })
}

/// Removes limiter's pins in the folder of an attachment and the folder itself. Then removes its parents that are
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

/// Removes a generation. Returns the names in its folder that are not limiter's.
pub fn generation(attachment: &Dir, number: u64) -> Result<Vec<String>> {
    let name = pins::generation(number);
    let folder = match attachment.open(&name) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(Vec::new()),
        Err(Error::Stranger(..)) => return Ok(vec![name]),
        Err(error) => return Err(error),
    };
    let mut strangers = Vec::new();
    for own in folder.names()? {
        let kind = match own.as_str() {
            object::PIN => Some(Kind::Program),
            record::NAME => Some(Kind::Map),
            list if maps::LIST_MAPS.contains(&list) || is_of_other_layout(attachment) => {
                Some(Kind::Map)
            }
            _ => None,
        };
        if !unpin(&folder, &own, kind)? {
            strangers.push(format!("{name}/{own}"));
        }
    }
    if strangers.is_empty() && !folder.remove()? {
        strangers.push(name);
    }
    Ok(strangers)
}

/// Whether another version has made the folder of an attachment: its maps may have other names.
fn is_of_other_layout(attachment: &Dir) -> bool {
    attachment
        .parent()
        .is_some_and(|above| above.path() != pins::root())
}

fn unpin(folder: &Dir, name: &str, kind: Option<Kind>) -> Result<bool> {
    kind.map_or(Ok(false), |kind| folder.unpin(name, kind))
}

/// Removes `name` from the pins of an attachment. Returns whether it was limiter's, and is gone.
fn remove_one(folder: &Dir, name: &str) -> Result<bool> {
    let kind = match name {
        link::NAME => Some(Kind::Link),
        pins::WATCH => return remove_empty(folder, name),
        TRIAL if is_of_other_layout(folder) => return remove_empty(folder, name),
        other if foreign::is_pin_name(other) => Some(Kind::Program),
        map if maps::MAPS.contains(&map) || is_of_other_layout(folder) => Some(Kind::Map),
        _ => None,
    };
    unpin(folder, name, kind)
}

fn remove_empty(folder: &Dir, name: &str) -> Result<bool> {
    match folder.open(name) {
        Ok(Some(inner)) => inner.remove(),
        Ok(None) => Ok(true),
        Err(Error::Stranger(..)) => Ok(false),
        Err(error) => Err(error),
    }
}
