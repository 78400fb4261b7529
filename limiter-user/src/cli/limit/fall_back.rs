//! `attach --or-last`: the last configuration that was in force, because that of the file cannot be applied.

use std::path::Path;

use anyhow::bail;
use limiter_kernel::{Attachment, ops::set::Wanted};

use crate::{
    cli::shared::{is_interface, note, output, unique},
    last,
};

/// The state that each interface gets instead of that of `path`. `why`: the failure.
///
/// # Errors
/// Limiter is attached already, so that the settings in force stay, or there is no last configuration.
pub async fn instead(
    interfaces: &[String],
    path: &Path,
    why: &anyhow::Error,
) -> anyhow::Result<Vec<(String, Wanted)>> {
    let absolute = std::path::absolute(path)?;
    let shown = absolute.display();
    let mut all = Vec::new();
    for interface in unique(interfaces) {
        if !is_interface(interface) || Attachment::open(interface).await.is_ok() {
            bail!("{why}");
        }
        let settings = match last::read(interface) {
            Ok(Some(settings)) => settings,
            Ok(None) => bail!(nothing(interface, why, "there is none")),
            Err(error) => bail!(nothing(interface, why, &format!("{error:#}"))),
        };
        note(&why.to_string());
        note(&format!(
            "WARNING: {interface} gets the last configuration that was in force, not that of {shown}: correct the file, and `limiter reload {interface}` (or `systemctl reload limiter@{interface}`)"
        ));
        let wanted = Wanted {
            settings,
            file: Some(absolute.clone()),
            instead: Some(format!(
                "{shown} could not be applied at the start; `limiter config check {shown}` says why, and `limiter reload {interface}` applies it"
            )),
            ..Wanted::default()
        };
        all.push((interface.to_owned(), wanted));
    }
    output::exit_with(output::FELL_BACK);
    Ok(all)
}

fn nothing(interface: &str, why: &anyhow::Error, reason: &str) -> String {
    format!(
        "{why}; {interface} is NOT LIMITED, because it has no last configuration either: {reason}"
    )
}
