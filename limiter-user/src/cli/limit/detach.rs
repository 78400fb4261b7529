use clap::Args;
use limiter_kernel::{
    Error,
    ops::detach::{detach, detach_all},
};

use crate::{
    cli::shared::{
        Extent, ForPrograms, interface, is_all, outcome,
        output::{note_error, nothing_to_change},
        record, unique,
    },
    kept,
    show::units::counted,
};

/// Stop limiting, and remove everything that limiter attached
#[derive(Debug, Args)]
pub struct Detach {
    /// The interfaces, separated by spaces or commas
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all", value_delimiter = ',', value_parser = interface)]
    interfaces: Vec<String>,
    /// Detach from all interfaces, and remove the remains of interfaces that no longer exist
    #[arg(long)]
    all: bool,
    /// With --all: also in other network namespaces, and attachments of versions that this one cannot read
    #[arg(long, requires = "all")]
    everywhere: bool,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Detach) -> anyhow::Result<()> {
    arguments.programs.changes();
    let mut results = Vec::new();
    if arguments.all || is_all(&arguments.interfaces) {
        results = detach_all(arguments.everywhere).await?;
        if results.is_empty() {
            nothing_to_change("unchanged: limiter is not attached to anything");
        }
    } else {
        for interface in unique(&arguments.interfaces) {
            let result = detach(interface).await;
            results.push((interface.to_owned(), result));
        }
    }
    // A failure on one interface does not keep the others attached. Each failure is reported; the command ends with
    // the last one.
    let mut failed = None;
    for (interface, result) in results {
        match result {
            Ok(again) => {
                // Names of other network namespaces are not those of files here.
                if !arguments.everywhere {
                    record(&interface, "detach", &[]);
                }
                let text = match again {
                    None => format!("detached{}", kept_bans(&interface, arguments.everywhere)),
                    Some(again) => format!("detached; {again} runs there again"),
                };
                outcome(&interface, Extent::All, &text);
            }
            Err(Error::NotAttached(_)) => {
                let text = "unchanged: limiter is not attached there";
                outcome(&interface, Extent::Nothing, text);
            }
            Err(error) => {
                if let Some(earlier) = failed.replace(error.into()) {
                    note_error(&earlier);
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Words about the bans that the next `attach` brings back.
fn kept_bans(interface: &str, everywhere: bool) -> String {
    // Names of other network namespaces are not those of files here.
    let found = match everywhere {
        true => None,
        false => kept::read(interface).ok().flatten(),
    };
    match found.map_or(0, |found| found.bans.len()) {
        0 => String::new(),
        count => format!("; {} kept", counted(count as u64, "ban")),
    }
}
