//! Configuration files: reading them for their interfaces, and warnings about their content.

use std::path::Path;

use limiter_config::{
    Limit, Mode, Settings, file, file::File, ineffective::USUAL_FRAME, reader::Mistake,
};
use limiter_kernel::{
    ops::set::Wanted,
    sys::{XdpMode, interface},
};

use super::{
    input::{self, is_input, shown},
    output::{is_strict, note},
};
use crate::show::units::counted;

/// Reads a file. Each mistake is reported on its own line; the returned error sums them up.
pub fn read(path: &Path) -> anyhow::Result<File> {
    parsed(path)?.map_err(|mistakes| refused(path, &mistakes))
}

/// The settings of a file's text, as JSON with the same keys.
pub fn as_json(text: &str) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::to_value(toml::from_str::<toml::Table>(text)?)?)
}

/// Reads a file, or its mistakes.
pub fn parsed(path: &Path) -> anyhow::Result<Result<File, Vec<Mistake>>> {
    let shown = shown(path);
    let text = if is_input(path) {
        let text = input::text();
        text.map(str::to_owned).map_err(|error| {
            anyhow::anyhow!(
                "{shown} cannot be read ({error}): write the configuration to it, and end it"
            )
        })?
    } else {
        limiter_config::files::read_text(path).map_err(|error| {
            anyhow::anyhow!("{shown} cannot be read ({error}): check the path and its permissions")
        })?
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    Ok(file::parse(&text, folder))
}

/// Reports each mistake of a file on its own line. The returned error sums them up.
pub fn refused(path: &Path, mistakes: &[Mistake]) -> anyhow::Error {
    let shown = shown(path);
    for mistake in mistakes {
        note(&format!("{shown}, {mistake}"));
    }
    let mistakes = counted(mistakes.len() as u64, "mistake");
    anyhow::anyhow!(
        "{shown} has {mistakes}, and nothing was changed: correct the lines named above"
    )
}

/// Reads a file for `interfaces`, or those that it names if `interfaces` is empty. Warns of settings without effect.
pub async fn read_for(interfaces: &[String], path: &Path) -> anyhow::Result<(Vec<String>, Wanted)> {
    let file = read(path)?;
    warn_of_changed_meaning(&shown(path), &file.settings);
    let warnings = warn_of_ineffective(path, &file, frame_max(interfaces, &file).await);
    refuse_warnings(path, warnings)?;
    let absolute = std::path::absolute(path).map_err(|error| {
        let shown = path.display();
        anyhow::anyhow!("{shown} has no absolute path ({error}): write the full path")
    })?;
    let wanted = Wanted {
        settings: file.settings,
        file: Some(absolute).filter(|_| !is_input(path)),
        ..Wanted::default()
    };
    Ok((real_names(&file.interfaces).await, wanted))
}

/// Fails because of warnings, with `--strict`.
pub fn refuse_warnings(path: &Path, count: usize) -> anyhow::Result<()> {
    let path = shown(path);
    if count > 0 && is_strict() {
        let count = counted(count as u64, "warning");
        anyhow::bail!(
            "{path} has {count}, which --strict refuses, and nothing was changed: correct the file as advised above"
        );
    }
    Ok(())
}

/// Warns of limits that earlier builds read in another way. `subject` names their file or interface. `--strict` does not
/// refuse them, because they may be right.
pub fn warn_of_changed_meaning(subject: &str, settings: &Settings) {
    for warning in settings.changed_meaning() {
        note(&format!("{subject}: warning: {warning}"));
    }
}

/// Warns of settings without effect on frames of at most `frame_max` bytes. Returns the number of warnings.
pub fn warn_of_ineffective(path: &Path, file: &File, frame_max: u64) -> usize {
    let warnings = file.settings.ineffective(frame_max);
    for warning in &warnings {
        note(&format!("{}: warning: {warning}", shown(path)));
    }
    warnings.len()
}

/// Warns about some limits of `settings` that slow TCP, by a burst that is too small, or stall it. `subject` names the
/// limits' file or interface. Returns the number of warnings.
pub fn warn_of_slow_tcp<'a>(
    subject: &str,
    settings: &Settings,
    limits: impl Iterator<Item = &'a Limit>,
) -> usize {
    slow_tcp(settings, limits)
        .inspect(|warning| note(&format!("{subject}: warning: {warning}")))
        .count()
}

/// Warns about each limit of a file that loses its room in the table to a flood of new sources. Returns the number of
/// warnings.
pub fn warn_of_full_tables(subject: &str, settings: &Settings, frame_max: u64) -> usize {
    let warnings = full_tables(settings, frame_max, None);
    for warning in &warnings {
        note(&format!("{subject}: {warning}"));
    }
    warnings.len()
}

fn full_tables(settings: &Settings, frame_max: u64, interface: Option<&str>) -> Vec<String> {
    // Invalid settings are reported elsewhere.
    let warnings = settings.table_warnings(frame_max).unwrap_or_default();
    let advice = settings.table_advice(frame_max, interface);
    let warnings = warnings.into_iter();
    warnings
        .map(|warning| format!("{warning}: {advice}"))
        .collect()
}

/// Warns of a new attachment, in one note: of limits that slow TCP, and of those that lose their room in the table. If the
/// limits were typed as options, it also warns of those that earlier builds read in another way.
pub fn warn_of_attached(interface: &str, settings: &Settings, frame_max: u64, is_typed: bool) {
    let mut warnings: Vec<_> = slow_tcp(settings, settings.limits.iter()).collect();
    warnings.extend(full_tables(settings, frame_max, Some(interface)));
    if is_typed {
        warnings.extend(settings.changed_meaning());
    }
    if !warnings.is_empty() {
        let text = warnings.join("; and ");
        note(&format!("{interface}: warning: {text}"));
    }
}

fn slow_tcp<'a>(
    settings: &Settings,
    limits: impl Iterator<Item = &'a Limit>,
) -> impl Iterator<Item = String> {
    let are_exempt = settings.exempt.established;
    limits.filter_map(move |limit| limit.slows_tcp().or(limit.stalls_tcp(are_exempt)))
}

/// The longest frame, in bytes, on those of `interfaces` (if empty: of the file's) that exist, in the mode that
/// `attach` would use. The usual frame if none exists.
pub async fn frame_max(interfaces: &[String], file: &File) -> u64 {
    let names = if interfaces.is_empty() {
        &file.interfaces
    } else {
        interfaces
    };
    let mode = match file.settings.mode {
        Mode::Generic => XdpMode::Generic,
        Mode::Tc => XdpMode::Tc,
        Mode::Auto | Mode::Native | Mode::Xdp => XdpMode::Native,
    };
    // A user who may not ask the kernel gets warnings for the usual frame.
    let known = interface::all().await.unwrap_or_default();
    let mut longest = None;
    for name in real_names(names).await {
        let found = interface::named(&known, &name).ok();
        longest = longest.max(found.map(|interface| interface.frame_max(mode)));
    }
    longest.unwrap_or(USUAL_FRAME)
}

/// The names of interfaces in place of `names`, which may be alternative ones.
async fn real_names(names: &[String]) -> Vec<String> {
    let mut real = Vec::new();
    for name in names {
        real.push(interface::real_name(name).await);
    }
    real
}
