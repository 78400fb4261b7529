//! Configuration files: reading them for their interfaces, and warnings about their content.

use std::path::Path;

use super::output::{is_strict, note};
use crate::{
    config::{
        Mode, Settings,
        file::{self, File},
        ineffective::USUAL_FRAME,
        origin::By,
    },
    kernel::{
        ops::set::Wanted,
        sys::interface::{self, Interface, XdpMode},
    },
    show::units::counted,
};

/// Reads a file. Each mistake is reported on its own line; the returned error sums them up.
pub fn read(path: &Path, frames: &Frames) -> anyhow::Result<(Vec<String>, Wanted)> {
    let shown = path.display();
    let text = crate::config::read_text(path).map_err(|error| {
        anyhow::anyhow!("{shown} cannot be read ({error}): check the path and its permissions")
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let (
        File {
            interfaces,
            settings,
        },
        warnings,
    ) = file::read(&text, folder, |file| frames.longest(file)).map_err(|mistakes| {
        for mistake in &mistakes {
            note(&format!("{shown}, {mistake}"));
        }
        let count = mistakes.len();
        let mistakes = if count == 1 {
            "1 mistake"
        } else {
            &format!("{count} mistakes")
        };
        anyhow::anyhow!(
            "{shown} has {mistakes}, and nothing was changed: correct the lines named above"
        )
    })?;
    for warning in &warnings {
        note(&format!("{shown}, {warning}"));
    }
    refuse_warnings(path, warnings.len())?;
    let file = std::path::absolute(path).map_err(|error| {
        anyhow::anyhow!("{shown} has no absolute path ({error}): write the full path")
    })?;
    Ok((
        interfaces,
        Wanted {
            file: Some(file),
            by: By::File,
            ..Wanted::new(settings)
        },
    ))
}

/// Fails because of warnings, with `--strict`.
pub fn refuse_warnings(path: &Path, count: usize) -> anyhow::Result<()> {
    let path = path.display();
    if count > 0 && is_strict() {
        let count = counted(count as u64, "warning");
        anyhow::bail!(
            "{path} has {count}, which --strict refuses, and nothing was changed: correct the file as advised above"
        );
    }
    Ok(())
}

/// Warns about each limit that loses its room in the table to a flood of new sources. `subject` names the limits' file
/// or interface. Returns the number of warnings.
pub fn warn_of_full_tables(subject: &str, settings: &Settings, frame_max: u64) -> usize {
    // Invalid settings are reported elsewhere.
    let warnings = settings.table_warnings(frame_max).unwrap_or_default();
    for warning in &warnings {
        note(&format!(
            "{subject}: {}: {}",
            warning.found(),
            warning.advice()
        ));
    }
    warnings.len()
}

/// Interfaces with the lengths of their frames.
#[derive(Debug, Default)]
pub struct Frames {
    known: Vec<Interface>,
    on: Vec<String>,
}

impl Frames {
    /// The frames of the interfaces `on`. If `on` is empty: of those that the file names.
    pub async fn of(on: &[String]) -> Self {
        Self {
            // A user who may not ask the kernel gets warnings for the usual frame.
            known: interface::all().await.unwrap_or_default(),
            on: on.to_vec(),
        }
    }

    /// The longest frame, in bytes, on those of the interfaces that exist, in the mode that `attach` would use. The
    /// usual frame if none exists.
    pub fn longest(&self, file: &File) -> u64 {
        let names = match &self.on[..] {
            [] => &file.interfaces,
            on => on,
        };
        let mode = match file.settings.mode {
            Mode::Generic => XdpMode::Generic,
            Mode::Auto | Mode::Native => XdpMode::Native,
        };
        let named = self.known.iter();
        let named = named.filter(|interface| names.contains(&interface.name));
        let frames = named.map(|interface| interface.frame_max(mode));
        frames.max().unwrap_or(USUAL_FRAME)
    }
}
