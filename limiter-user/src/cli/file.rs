//! `limiter config`, `limiter reload`, and the file of `attach --config`.

use std::{convert::Infallible, path::Path};

use crate::{
    cli::{
        args,
        frames::Frames,
        interfaces::each,
        output::{about, is_strict, note, outcome, print, write},
        set::{is_unchanged, told},
        shares, ssh,
    },
    config::{
        file::{self, File},
        origin::By,
    },
    kernel::{
        Attachment,
        ops::set::{Lasts, Wanted, swap},
        program::object::Variant,
    },
    show::units::counted,
};

/// What is in a file. Everything that is wrong with it is told, a line each; the last one ends the
/// command.
pub fn read(path: &Path, frames: &Frames) -> anyhow::Result<(Vec<String>, Wanted)> {
    let shown = path.display();
    let text = crate::config::read_text(path)
        .map_err(|error| anyhow::anyhow!("{shown} cannot be read ({error}): is that the file?"))?;
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
        anyhow::anyhow!("{shown} has {mistakes}, and nothing was changed: mend what is named above")
    })?;
    for warning in &warnings {
        note(&format!("{shown}, {warning}"));
    }
    refuse_warnings(path, warnings.len())?;
    let file = std::path::absolute(path)
        .map_err(|error| anyhow::anyhow!("{shown} has no path ({error}): write it in full"))?;
    Ok((
        interfaces,
        Wanted {
            settings,
            file: Some(file),
            by: By::File,
        },
    ))
}

/// With `--strict`, a warning is a failure.
fn refuse_warnings(path: &Path, count: usize) -> anyhow::Result<()> {
    let path = path.display();
    if count > 0 && is_strict() {
        let count = counted(count as u64, "warning");
        anyhow::bail!(
            "{path} has {count}, which --strict refuses, and nothing was changed: mend what is named above"
        );
    }
    Ok(())
}

/// `limiter config check`.
pub async fn check(path: &Path) -> anyhow::Result<()> {
    let frames = Frames::of(&[]).await;
    let (interfaces, Wanted { settings, .. }) = read(path, &frames)?;
    let subject = path.display().to_string();
    let file = File {
        interfaces,
        settings,
    };
    refuse_warnings(
        path,
        shares::warn(&subject, &file.settings, frames.longest(&file)),
    )?;
    let limits = file.settings.limits.len();
    let prefixes: usize = file.settings.lists.all().map(|(_, list)| list.len()).sum();
    Ok(print(&format!(
        "{}: sound: {}, {} on lists\n",
        path.display(),
        counted(limits as u64, "limit"),
        counted(prefixes as u64, "prefix")
    ))?)
}

/// `limiter config show`.
pub async fn show(interface: &str) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let settings = attachment.own_settings()?;
    write(&file::show(&[interface.to_owned()], &settings))?;
    let of_fleet = attachment.record.spread.alone.keys().cloned();
    let of_fleet = of_fleet.collect::<Vec<_>>().join(", ");
    if !of_fleet.is_empty() {
        note(&format!(
            "what only the fleet has put on lists ({of_fleet}) is not shown: whoever is of the fleet gets it from there"
        ));
    }
    Ok(())
}

/// `limiter reload`.
pub async fn reload(arguments: args::Reload) -> anyhow::Result<()> {
    let args::Reload {
        on,
        config,
        lasting,
    } = arguments;
    let reload = async |interface: &str, path: &Path| {
        let frames = Frames::of(&[interface.to_owned()]).await;
        let (_, wanted) = read(path, &frames)?;
        let advice = |client: &str| allow_in(path, client);
        put_in_force(interface, wanted, lasting.lasts(), advice).await
    };
    each(&on.interfaces, async |interface| match &config {
        Some(path) => reload(interface, path).await,
        None => reload(interface, &last_file(interface).await?).await,
    })
    .await
}

/// Swaps `wanted` into the attachment of `interface`; `advice` is how whoever works from a client keeps the session.
pub async fn put_in_force(
    interface: &str,
    wanted: Wanted,
    lasts: Lasts,
    advice: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    ssh::warn_of_change(
        interface,
        |_| Ok::<_, Infallible>(wanted.settings.clone()),
        advice,
    )
    .await;
    let changed = swap(interface, Variant::Plain, lasts, |_| Ok(wanted.clone()))
        .await
        .map_err(|error| about(interface, error))?;
    outcome(is_unchanged(&changed), &told(interface, &changed, lasts));
    Ok(())
}

/// How whoever works from `client` keeps the session, by the file.
pub fn allow_in(file: &Path, client: &str) -> String {
    format!(
        "allow = [\"{client}\"] under [lists] of {} lets it pass",
        file.display()
    )
}

async fn last_file(interface: &str) -> anyhow::Result<std::path::PathBuf> {
    let attachment = Attachment::open(interface).await?;
    attachment.record.file.ok_or_else(|| {
        anyhow::anyhow!(
            "{interface} was not attached from a file: write `limiter reload {interface} --config FILE`, or change it with `limiter set {interface}`"
        )
    })
}
