//! `limiter status`.

use crate::agent::ask;
use crate::cli::{
    args,
    output::{note, print, print_json},
};
use crate::kernel::Attachment;
use crate::stats::{Status, collect};
use crate::view;

pub async fn run(arguments: args::Status) -> anyhow::Result<()> {
    let (attachments, errors) = match &arguments.interface {
        Some(name) => (vec![Attachment::open(name).await?], Vec::new()),
        None => Attachment::all().await?,
    };
    let mut interfaces = Vec::new();
    for attachment in &attachments {
        let mut shown = collect::interface(attachment)?;
        shown.fleet = ask::of(attachment, ask::PATIENCE).await;
        interfaces.push(shown);
    }
    let status = Status { interfaces };
    if arguments.json {
        print_json(&status)?;
    } else {
        print(&view::status::status(&status))?;
    }
    for error in &errors {
        note(&error.to_string());
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(anyhow::anyhow!(
            "{} of the attachments cannot be shown: see above",
            errors.len()
        ))
    }
}
