//! `limiter config diff`.

use std::path::Path;

use limiter_config::{Mode, difference::difference};
use limiter_kernel::Attachment;

use super::save::named_or_last;
use crate::{
    cli::shared::{document, file::read, input::shown},
    observe::Difference,
    show,
};

/// Prints what a reload of `path` would change, or of the file that the settings in force came from.
pub async fn compare(interface: &str, path: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let path = named_or_last(interface, path, &attachment)?;
    let mut new = read(&path)?.settings;
    let own = attachment.own_settings()?;
    if new.mode == Mode::Auto {
        // As `reload`: a file without a mode keeps that of the attachment.
        new.mode = own.mode;
    }
    let changes = Difference {
        interface: interface.to_owned(),
        file: shown(&path),
        changes: difference(&own, &new, attachment.record.frame_max),
    };
    document(json, &changes, || show::comparison::lines(&changes))
}
