//! `limiter config save`.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use limiter_config::{
    Limit, Settings,
    difference::difference,
    file::{self, File, rewritten},
    names::direction_of,
};
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{Extent, file::refused, input::is_input, note, outcome, record},
    files::{NotWritten, UserFile, create_whole},
};

/// Writes the settings in force to `path`, or to the file that they came from.
pub async fn save(interface: &str, path: Option<&Path>) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let path = match (path, &attachment.record.file) {
        (Some(path), _) if is_input(path) => bail!(
            "- is standard input, and nothing is saved there: `limiter config show {interface}` prints the settings"
        ),
        (Some(path), _) => std::path::absolute(path)?,
        (None, Some(path)) => path.clone(),
        (None, None) => bail!(
            "{interface} was not attached from a file: name one, as in `limiter config save {interface} /etc/limiter/{interface}.toml`"
        ),
    };
    let own = attachment.own_settings()?;
    let shown = path.display();
    let failed = |error: std::io::Error| {
        anyhow!(
            "{shown} cannot be written ({error}): check the path, its permissions and the room on the disk; nothing was changed"
        )
    };
    match UserFile::read(&path).map_err(failed)? {
        None => {
            create_whole(&path, &file::show(&[interface.to_owned()], &own)).map_err(failed)?;
            record(interface, "save", &[format!("{shown}, a new file")]);
            outcome(
                interface,
                Extent::All,
                &format!("saved in {shown}, a new file"),
            );
        }
        Some(old) => {
            let file = parsed(&old)?;
            if attachment.record.file.as_ref() != Some(&path) {
                refuse_file_of_others(interface, &path, &file, &own)?;
            }
            let before = file.settings;
            let changes = difference(&before, &own, attachment.record.frame_max);
            if before == own {
                let text = format!("unchanged: {shown} has the settings in force");
                outcome(interface, Extent::Nothing, &text);
            } else {
                old.replace(&in_force(interface, &old, &before, &own)?, false)
                    .map_err(|error| match error {
                        NotWritten::Io(error) => failed(error),
                        NotWritten::Changed => anyhow!(
                            "{shown} was changed by another program at this moment, and stays so: repeat the command"
                        ),
                    })?;
                record(interface, "save", &[shown.to_string()]);
                let saved = format!("saved in {shown}");
                let lines: Vec<_> = changes.into_iter().chain([saved]).collect();
                outcome(interface, Extent::All, &lines.join("\n"));
            }
        }
    }
    note_others(interface, &path, &attachment).await;
    Ok(())
}

/// Fails if the limits of a file that this attachment does not come from would be lost: the file is for other
/// interfaces, or none of its limits is in force.
fn refuse_file_of_others(
    interface: &str,
    path: &Path,
    file: &File,
    own: &Settings,
) -> anyhow::Result<()> {
    let interfaces = &file.interfaces;
    let advice = "and nothing was changed: name another file, or remove this one first";
    let is_own = |name: &String| direction_of(name).0 == direction_of(interface).0;
    if !interfaces.is_empty() && !interfaces.iter().any(is_own) {
        bail!(
            "{} is for {}, not {interface}, {advice}",
            path.display(),
            interfaces.join(", ")
        );
    }
    let limits = &file.settings.limits;
    let is_in_force = |limit: &Limit| own.limits.iter().any(|own| own.name == limit.name);
    if !limits.is_empty() && !limits.iter().any(is_in_force) {
        let names: Vec<_> = limits.iter().map(|limit| limit.name.as_str()).collect();
        bail!(
            "{} has other limits ({}), {advice}",
            path.display(),
            names.join(", ")
        );
    }
    Ok(())
}

/// The settings of a file. Its mistakes are reported.
pub fn settings_of(old: &UserFile) -> anyhow::Result<Settings> {
    Ok(parsed(old)?.settings)
}

fn parsed(old: &UserFile) -> anyhow::Result<File> {
    let folder = old.path.parent().unwrap_or(Path::new("."));
    file::parse(&old.text, folder).map_err(|mistakes| refused(&old.path, &mistakes))
}

/// The text of a file with the settings in force.
pub fn in_force(
    interface: &str,
    old: &UserFile,
    before: &Settings,
    own: &Settings,
) -> anyhow::Result<String> {
    let folder = old.path.parent().unwrap_or(Path::new("."));
    rewritten(&old.text, folder, before, own).map_err(|why| {
        anyhow!(
            "{} stays as it is, because {why}; `limiter config show {interface}` prints the settings in force",
            old.path.display()
        )
    })
}

/// Notes whom the file concerns besides, and what it does not have.
async fn note_others(interface: &str, path: &Path, attachment: &Attachment) {
    let shown = path.display();
    if attachment.record.file.as_deref() != Some(path) {
        note(&format!(
            "`limiter reload {interface} --config {shown}` makes it the file of {interface}; limiter@{interface}.service reads /etc/limiter/{interface}.toml"
        ));
    }
    if let Some(until) = attachment.try_until() {
        note(&format!(
            "{interface} is on trial until {until}: what was saved is what is tried"
        ));
    }
    for other in sharing(interface, path).await {
        note(&format!(
            "{shown} is the file of {other} too: `limiter config diff {other}` shows what a reload would change there"
        ));
    }
    super::note_of_fleet(attachment, "saved");
}

/// The other attachments whose settings came from a file.
pub async fn sharing(interface: &str, path: &Path) -> Vec<String> {
    let mut others = Vec::new();
    let look = async |attachment: Attachment| {
        let name = attachment.interface.name;
        if name != interface && attachment.record.file.as_deref() == Some(path) {
            others.push(name);
        }
    };
    // Attachments that cannot be read are reported by `status`.
    let _ = Attachment::visit_all(look).await;
    others
}

/// The file of an attachment, or the one that was named.
pub fn named_or_last(
    interface: &str,
    named: Option<&Path>,
    attachment: &Attachment,
) -> anyhow::Result<PathBuf> {
    let last = attachment.record.file.as_deref();
    named.or(last).map(Path::to_owned).ok_or_else(|| {
        anyhow!(
            "{interface} was not attached from a file: name one, as in `limiter config diff {interface} FILE`"
        )
    })
}
