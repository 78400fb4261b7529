mod compare;
pub mod save;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use limiter_config::{file, reader::Mistake};
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{
        ForPrograms, On, OnOne, as_json, document, each,
        file::{frame_max, parsed, refused},
        input::shown,
        named, note, refuse_warnings, warn_of_changed_meaning, warn_of_full_tables,
        warn_of_ineffective, warn_of_slow_tcp, write,
    },
    observe::settings::{CheckedFile, MistakeInFile, SettingsInForce},
    show::{status::configured, units::counted},
};

/// Actions on a configuration.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Report the mistakes in a file
    #[command(aliases = ["test", "validate", "verify", "lint"])]
    Check {
        /// The configuration file; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        programs: ForPrograms,
    },
    /// Print the settings in force, as a configuration file
    #[command(aliases = ["print", "list", "get", "cat", "view", "dump", "export"])]
    Show {
        #[command(flatten)]
        on: On,
        #[command(flatten)]
        programs: ForPrograms,
    },
    /// Print what a reload of a file would change
    #[command(alias = "compare")]
    Diff {
        #[command(flatten)]
        on: OnOne,
        /// The configuration file; - for standard input. Default: the file that was applied last
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        programs: ForPrograms,
    },
    /// Write the settings in force to a file, whose comments stay
    #[command(alias = "write")]
    Save {
        #[command(flatten)]
        on: OnOne,
        /// The configuration file, which may be a new one. Default: the file that was applied last
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        programs: ForPrograms,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Check { file, programs } => {
            programs.answer();
            check(&file, programs.json).await
        }
        Verb::Show {
            on: targets,
            programs,
        } => {
            programs.answer();
            let show = async |interface: &str| show(interface, programs.json).await;
            each(&targets.interfaces, show).await
        }
        Verb::Diff {
            on: targets,
            file,
            programs,
        } => {
            programs.answer();
            let compare = async |interface: &str| {
                compare::compare(interface, file.as_deref(), programs.json).await
            };
            each(&targets.interfaces, compare).await
        }
        Verb::Save {
            on: targets,
            file,
            programs,
        } => {
            programs.changes();
            // One file after the other: interfaces may share it.
            for interface in named(&targets.interfaces).await? {
                save::save(&interface, file.as_deref()).await?;
            }
            Ok(())
        }
    }
}

async fn check(path: &Path, json: bool) -> anyhow::Result<()> {
    let file = match parsed(path)? {
        Ok(file) => file,
        Err(mistakes) => {
            if json {
                let text = String::new;
                document(json, &with_mistakes(path, &mistakes), text)?;
            }
            return Err(refused(path, &mistakes));
        }
    };
    let frame_max = frame_max(&[], &file).await;
    let subject = shown(path);
    warn_of_changed_meaning(&subject, &file.settings);
    let warnings = warn_of_ineffective(path, &file, frame_max)
        + warn_of_slow_tcp(&subject, &file.settings, file.settings.limits.iter())
        + warn_of_full_tables(&subject, &file.settings, frame_max);
    refuse_warnings(path, warnings)?;
    let limits = file.settings.limits.len() as u64;
    let prefixes: usize = file.settings.lists.all().map(|(_, list)| list.len()).sum();
    let checked = CheckedFile {
        file: subject.clone(),
        valid: true,
        limits: Some(limits),
        prefixes: Some(prefixes as u64),
        mistakes: Vec::new(),
    };
    document(json, &checked, || {
        let limits = counted(limits, "limit");
        let prefixes = counted(prefixes as u64, "prefix");
        let text = format!("{subject}: valid: {limits}, {prefixes} on lists\n");
        text + &configured(&file.settings, frame_max)
    })
}

fn with_mistakes(path: &Path, mistakes: &[Mistake]) -> CheckedFile {
    let mistakes = mistakes.iter().map(|mistake| MistakeInFile {
        line: mistake.line as u64,
        text: mistake.message.clone(),
    });
    CheckedFile {
        file: shown(path),
        valid: false,
        limits: None,
        prefixes: None,
        mistakes: mistakes.collect(),
    }
}

async fn show(interface: &str, json: bool) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let settings = attachment.own_settings()?;
    let text = file::show(&[interface.to_owned()], &settings);
    if !json {
        write(&text)?;
    }
    note_of_fleet(&attachment, "shown");
    if !json {
        return Ok(());
    }
    let in_force = SettingsInForce {
        interface: interface.to_owned(),
        settings: as_json(&text)?,
    };
    document(json, &in_force, String::new)
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
