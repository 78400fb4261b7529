mod compare;
pub mod save;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use limiter_config::file;
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{
        On, OnOne, each,
        file::{frame_max, read},
        input::shown,
        named, note, print, refuse_warnings, warn_of_changed_meaning, warn_of_full_tables,
        warn_of_ineffective, warn_of_small_bursts, write,
    },
    show::{status::configured, units::counted},
};

/// Actions on a configuration.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Report the mistakes in a file
    Check {
        /// The configuration file; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the settings in force, as a configuration file
    Show {
        #[command(flatten)]
        on: On,
    },
    /// Print what a reload of a file would change
    Diff {
        #[command(flatten)]
        on: OnOne,
        /// The configuration file; - for standard input. Default: the file that was applied last
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Write the settings in force to a file, whose comments stay
    Save {
        #[command(flatten)]
        on: OnOne,
        /// The configuration file, which may be a new one. Default: the file that was applied last
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Check { file } => check(&file).await,
        Verb::Show { on: targets } => each(&targets.interfaces, show).await,
        Verb::Diff {
            on: targets,
            file,
            json,
        } => {
            let compare =
                async |interface: &str| compare::compare(interface, file.as_deref(), json).await;
            each(&targets.interfaces, compare).await
        }
        Verb::Save { on: targets, file } => {
            // One file after the other: interfaces may share it.
            for interface in named(&targets.interfaces).await? {
                save::save(&interface, file.as_deref()).await?;
            }
            Ok(())
        }
    }
}

async fn check(path: &Path) -> anyhow::Result<()> {
    let file = read(path)?;
    let frame_max = frame_max(&[], &file).await;
    let subject = shown(path);
    warn_of_changed_meaning(&subject, &file.settings);
    let warnings = warn_of_ineffective(path, &file, frame_max)
        + warn_of_small_bursts(&subject, file.settings.limits.iter())
        + warn_of_full_tables(&subject, &file.settings, frame_max);
    refuse_warnings(path, warnings)?;
    let limits = counted(file.settings.limits.len() as u64, "limit");
    let prefixes: usize = file.settings.lists.all().map(|(_, list)| list.len()).sum();
    let prefixes = counted(prefixes as u64, "prefix");
    let text = format!("{subject}: valid: {limits}, {prefixes} on lists\n");
    Ok(print(&(text + &configured(&file.settings, frame_max)))?)
}

async fn show(interface: &str) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let settings = attachment.own_settings()?;
    write(&file::show(&[interface.to_owned()], &settings))?;
    note_of_fleet(&attachment, "shown");
    Ok(())
}

/// Notes prefixes that a file of the settings does not have. `done`: `shown` or `saved`.
fn note_of_fleet(attachment: &Attachment, done: &str) {
    let of_fleet = attachment.record.overlay.alone.keys().cloned();
    let of_fleet = of_fleet.collect::<Vec<_>>().join(", ");
    if !of_fleet.is_empty() {
        note(&format!(
            "prefixes that only the fleet has added ({of_fleet}) are not {done}: hosts of the fleet get them from the fleet"
        ));
    }
}
