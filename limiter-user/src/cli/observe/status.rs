use clap::Args;

use crate::{
    agent::ask,
    cli::shared::{answer, interface, is_all, note, unique},
    kernel::{Attachment, Error},
    observe,
    observe::{collect, feeds},
    show,
};

/// Show each attachment, its limits and its counters
#[derive(Debug, Args)]
pub struct Status {
    /// The interfaces, separated by spaces or commas. Default: all that limiter is attached to
    #[arg(value_name = "IFACE", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Status) -> anyhow::Result<()> {
    let names = &arguments.interfaces;
    let (attachments, errors) = match &unique(names)[..] {
        [] => Attachment::all().await?,
        [_] if is_all(names) => Attachment::all().await?,
        [name] => (vec![Attachment::open(name).await?], Vec::new()),
        names => named(names).await,
    };
    let mut interfaces = Vec::new();
    for attachment in &attachments {
        let mut shown = collect::interface(attachment)?;
        shown.fleet = ask::of(attachment, ask::PATIENCE).await;
        interfaces.push(shown);
    }
    let feeds = feeds::all();
    let status = observe::Status { interfaces, feeds };
    answer(arguments.json, &status, || show::status::status(&status))?;
    for error in &errors {
        note(&error.to_string());
    }
    // After a trial with nothing before it, an interface has nothing to show.
    let all = names.is_empty() || is_all(names);
    let is_failure = |error: &&Error| !(all && matches!(error, Error::TrialOver(..)));
    match errors.iter().filter(is_failure).count() {
        0 => Ok(()),
        count => Err(anyhow::anyhow!(
            "{count} of the attachments cannot be shown: see the errors above"
        )),
    }
}

/// The attachments of several interfaces, and the errors of those that cannot be shown.
async fn named(names: &[&str]) -> (Vec<Attachment>, Vec<Error>) {
    let (mut attachments, mut errors) = (Vec::new(), Vec::new());
    for name in names {
        match Attachment::open(name).await {
            Ok(attachment) => attachments.push(attachment),
            Err(error) => errors.push(error),
        }
    }
    (attachments, errors)
}
