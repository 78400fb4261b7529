//! The last configuration of an interface that was in force, for a host that starts with a file that has a mistake.
//!
//! Commands that put settings in force for good write it, if the attachment has a file. It is a configuration file without
//! references to others: prefixes of files and databases are in it. Another network namespace than the first one has none,
//! because it does not outlive a restart.

use std::{
    io::{ErrorKind, Read as _},
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use limiter_config::{Settings, file, files::TEXT_MOST};

use crate::files::{Folder, Place, name_of};

/// The most files. Those of interfaces that are gone stay until then.
const FILES: usize = 256;

fn file_name(interface: &str) -> Result<String> {
    Ok(format!("{}.toml", name_of(interface)?))
}

/// Writes the settings of an interface. They are on the disk at the end.
pub fn write(interface: &str, settings: &Settings) -> Result<()> {
    let Some(place) = Place::for_next_start("last")? else {
        return Ok(());
    };
    let folder = place.make()?;
    let name = file_name(interface)?;
    let text = file::show(&[interface.to_owned()], settings);
    if is_stored(&folder, &name, text.as_bytes()).unwrap_or_default() {
        return Ok(());
    }
    if text.len() as u64 > TEXT_MOST {
        bail!("it is longer than {} MiB", TEXT_MOST >> 20);
    }
    folder.bound(FILES, &name);
    Ok(folder.replace(&name, text.as_bytes())?)
}

/// True if the file has this text. The file is read in parts, because lists may be long.
fn is_stored(folder: &Folder, name: &str, mut text: &[u8]) -> Result<bool> {
    let mut file = folder.read(name)?;
    let mut part = [0; 1 << 14];
    loop {
        let read = file.read(&mut part)?;
        match text.split_at_checked(read) {
            Some(([], rest)) => return Ok(rest.is_empty()),
            Some((same, rest)) if *same == part[..read] => text = rest,
            _ => return Ok(false),
        }
    }
}

fn stored(folder: &Folder, name: &str) -> Result<Option<String>> {
    let mut text = String::new();
    match folder.read(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?.take(TEXT_MOST).read_to_string(&mut text)?,
    };
    Ok(Some(text))
}

/// Reads the settings of an interface; none if there are none.
pub fn read(interface: &str) -> Result<Option<Settings>> {
    let Some(place) = Place::for_next_start("last")? else {
        return Ok(None);
    };
    let Some(folder) = place.open()? else {
        return Ok(None);
    };
    let name = file_name(interface)?;
    let path = folder.path_of(&name);
    let shown = path.display();
    let text = stored(&folder, &name).with_context(|| format!("{shown} cannot be read"))?;
    let Some(text) = text else {
        return Ok(None);
    };
    match file::parse(&text, Path::new("/")) {
        Ok(file) if file.interfaces == [interface] => Ok(Some(file.settings)),
        Ok(_) => bail!("{shown} is of another interface"),
        Err(mistakes) => {
            let first = mistakes
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            bail!("{shown} has a mistake: {first}")
        }
    }
}
