//! `limiter config`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::{
    cli::shared::{
        file::{Frames, read, refuse_warnings, warn_of_full_tables},
        interfaces::{On, each},
        output::{note, print, write},
    },
    config::file::{self, File},
    kernel::{Attachment, ops::set::Wanted},
    show::units::counted,
};

/// Actions on a configuration.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Report all mistakes in a file
    Check {
        /// The configuration file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the settings in force, as a configuration file
    Show {
        #[command(flatten)]
        on: On,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Check { file } => check(&file).await,
        Verb::Show { on } => each(&on.interfaces, show).await,
    }
}

async fn check(path: &Path) -> anyhow::Result<()> {
    let frames = Frames::of(&[]).await;
    let (interfaces, Wanted { settings, .. }) = read(path, &frames)?;
    let subject = path.display().to_string();
    let file = File {
        interfaces,
        settings,
    };
    refuse_warnings(
        path,
        warn_of_full_tables(&subject, &file.settings, frames.longest(&file)),
    )?;
    let limits = file.settings.limits.len();
    let prefixes: usize = file.settings.lists.all().map(|(_, list)| list.len()).sum();
    Ok(print(&format!(
        "{}: valid: {}, {} on lists\n",
        path.display(),
        counted(limits as u64, "limit"),
        counted(prefixes as u64, "prefix")
    ))?)
}

async fn show(interface: &str) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let settings = attachment.own_settings()?;
    write(&file::show(&[interface.to_owned()], &settings))?;
    let of_fleet = attachment.record.overlay.alone.keys().cloned();
    let of_fleet = of_fleet.collect::<Vec<_>>().join(", ");
    if !of_fleet.is_empty() {
        note(&format!(
            "prefixes that only the fleet has added ({of_fleet}) are not shown: hosts of the fleet get them from the fleet"
        ));
    }
    Ok(())
}
