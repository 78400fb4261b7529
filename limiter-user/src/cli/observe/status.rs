use clap::Args;
use limiter_kernel::{Attachment, Error};

use crate::{
    ask,
    cli::shared::{answer, interface, is_all, note, unique},
    observe::{self, collect, feeds},
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
    let all = names.is_empty() || is_all(names);
    let (mut interfaces, mut errors) = (Vec::new(), Vec::new());
    if all {
        let read = async |attachment: Attachment| {
            interfaces.push(collect::interface(&attachment, ask::PATIENCE).await);
        };
        errors = Attachment::visit_all(read).await?;
    }
    for name in unique(names).iter().filter(|_| !all) {
        match Attachment::open(name).await {
            Ok(attachment) => {
                interfaces.push(collect::interface(&attachment, ask::PATIENCE).await);
            }
            Err(error) if names.len() == 1 => return Err(error.into()),
            Err(error) => errors.push(error),
        }
    }
    let interfaces = interfaces.into_iter().collect::<Result<_, _>>()?;
    let feeds = feeds::all();
    let status = observe::Status { interfaces, feeds };
    answer(arguments.json, &status, || show::status::status(&status))?;
    for error in &errors {
        note(&error.to_string());
    }
    // After a trial with nothing before it, an interface has nothing to show.
    let is_failure = |error: &&Error| !(all && matches!(error, Error::TrialOver(..)));
    match errors.iter().filter(is_failure).count() {
        0 => Ok(()),
        count => Err(anyhow::anyhow!(
            "{count} of the attachments cannot be shown: see the errors above"
        )),
    }
}
