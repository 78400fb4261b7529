//! The databases of countries and autonomous systems that configurations name.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use limiter_config::places;
use limiter_kernel::Attachment;

/// The databases that the lists of an attachment's file name.
pub fn databases(attachment: &Attachment) -> BTreeSet<PathBuf> {
    let Some(file) = &attachment.record.file else {
        return BTreeSet::new();
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    let text = limiter_config::files::read_text(file).unwrap_or_default();
    places::named(&text, folder)
}
