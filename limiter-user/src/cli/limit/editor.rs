//! `limiter edit`.

use std::{path::Path, time::Duration};

use anyhow::{anyhow, bail};
use clap::Args;
use limiter_config::{Mode, Settings, difference::difference, file};
use limiter_kernel::{
    Attachment,
    ops::{
        set::{Lasts, Wanted, swap},
        trial::{Ended, end},
    },
};

use super::{
    dialog::{Answer, Dialog},
    keep::record_end,
    reload::{allow_in, put_in_force},
    workshop::Workshop,
};
use crate::{
    cli::{
        plan::config::save::{in_force, settings_of, sharing},
        shared::{
            DAY, Extent, SECOND, about, allow_first, duration,
            file::{frame_max, refused},
            interface, note, outcome,
            output::report,
            record, warn_of_changed_meaning, warn_of_ineffective,
        },
    },
    files::{NotWritten, UserFile},
};

/// Change the configuration in your editor, try it, and save it
///
/// Opens the file that the settings came from (or the settings in force, if there is none) in the editor of SUDO_EDITOR,
/// VISUAL or EDITOR, checks the text, shows what would change, tries it for --try, and saves it once you keep it. If the
/// session is lost meanwhile, the former settings return by themselves.
#[derive(Debug, Args)]
pub struct Edit {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
    /// Undo the change after this time unless you keep it: 1s to 1day, as in 90s or 10m
    #[arg(long = "try", value_name = "DURATION", default_value = "2m", value_parser = duration(SECOND..=DAY, "90s"), allow_hyphen_values = true)]
    try_for: Duration,
}

/// An edit of an attachment's configuration.
struct Session {
    interface: String,
    /// The file that the settings came from, as it was read; none without a file.
    file: Option<UserFile>,
    workshop: Workshop,
    dialog: Dialog,
    try_for: Duration,
}

/// The next step.
enum Next {
    EditAgain,
    Done,
}

pub async fn run(arguments: Edit) -> anyhow::Result<()> {
    let interface = arguments.interface;
    let attachment = Attachment::open(&interface).await?;
    let own = attachment.own_settings()?;
    let path = attachment.record.file.clone();
    drop(attachment);
    let file = path.as_deref().map(open).transpose()?;
    let (workshop, left) = Workshop::open(&interface)?;
    if let Some(left) = left {
        let left = left.display();
        note(&format!(
            "{left} has the text of an edit that was interrupted: remove it if you do not need it"
        ));
    }
    let mut session = Session {
        interface,
        file,
        workshop,
        dialog: Dialog::new()?,
        try_for: arguments.try_for,
    };
    let Some(begin) = session.text_to_edit(&own).await? else {
        return Ok(());
    };
    session.workshop.write(&begin)?;
    loop {
        session.workshop.edit()?;
        session.dialog.after_editor()?;
        let text = session.workshop.read()?;
        if text == begin {
            let text = "unchanged: the text is as it was";
            outcome(&session.interface, Extent::Nothing, text);
            return Ok(());
        }
        match session.offer(&text).await? {
            Next::EditAgain => {}
            Next::Done => return Ok(()),
        }
    }
}

fn open(path: &Path) -> anyhow::Result<UserFile> {
    let shown = path.display();
    let file = UserFile::read(path)
        .map_err(|error| anyhow!("{shown} cannot be read ({error}): check its permissions"))?;
    file.ok_or_else(|| {
        anyhow!("{shown} is gone: `limiter config save IFACE {shown}` writes the settings in force there")
    })
}

impl Session {
    /// The text that the editor gets: that of the file, or one with the settings in force. None if the user leaves.
    async fn text_to_edit(&mut self, own: &Settings) -> anyhow::Result<Option<String>> {
        let interface = &self.interface;
        let Some(file) = &self.file else {
            return Ok(Some(file::show(std::slice::from_ref(interface), own)));
        };
        let shown = file.path.display();
        let Ok(mut before) = settings_of(file) else {
            note(&format!(
                "{interface}: the text to edit is that of {shown}, with these mistakes"
            ));
            return Ok(Some(file.text.clone()));
        };
        if before.mode == Mode::Auto {
            before.mode = own.mode;
        }
        if before == *own {
            return Ok(Some(file.text.clone()));
        }
        note(&format!(
            "{interface}: {shown} does not have the settings in force: `limiter config diff {interface}` shows the differences"
        ));
        let choices = [
            "file: edit it as it is",
            "in force: edit it with the settings in force",
            "quit",
        ];
        match self.dialog.ask(&choices, None).await? {
            Answer::Letter('f') => Ok(Some(file.text.clone())),
            Answer::Letter('i') => in_force(interface, file, &settings_of(file)?, own).map(Some),
            _ => Ok(None),
        }
    }

    /// The path that messages about the text name.
    fn subject(&self) -> &Path {
        self.file
            .as_ref()
            .map_or(Path::new("the text"), |file| &file.path)
    }

    /// Checks a text, and puts it in force as the user decides.
    async fn offer(&mut self, text: &str) -> anyhow::Result<Next> {
        let Some(wanted) = self.checked(text).await else {
            return self.after_mistake().await;
        };
        let interface = self.interface.clone();
        let dry = swap(&interface, Lasts::DryRun, |_| Ok(wanted.clone())).await;
        let dry = match dry.map_err(about(&interface)) {
            Ok(dry) => dry,
            Err(error) => {
                note(&error.to_string());
                return self.after_mistake().await;
            }
        };
        let changes = difference(&dry.old, &dry.new, dry.record.frame_max);
        if changes.is_empty() {
            report(&format!("{interface}: no setting changes\n"));
            return self.save(text).await;
        }
        let lines: String = changes
            .iter()
            .map(|line| format!("{interface}: {line}\n"))
            .collect();
        report(&lines);
        let time = humantime::format_duration(self.try_for).to_string();
        let choices = [&format!("try it for {time}"), "edit again", "discard"];
        match self.dialog.ask(&choices, None).await? {
            Answer::Letter('t') => self.attempt(wanted, text).await,
            Answer::Letter('e') => Ok(Next::EditAgain),
            _ => Ok(self.discarded()),
        }
    }

    /// The wanted state of a text. Mistakes and warnings are reported.
    async fn checked(&self, text: &str) -> Option<Wanted> {
        let path = self.subject();
        let folder = path.parent().unwrap_or(Path::new("."));
        let parsed = match file::parse(text, folder) {
            Ok(parsed) => parsed,
            Err(mistakes) => {
                note(&refused(path, &mistakes).to_string());
                return None;
            }
        };
        warn_of_changed_meaning(&path.display().to_string(), &parsed.settings);
        let frame = frame_max(std::slice::from_ref(&self.interface), &parsed).await;
        warn_of_ineffective(path, &parsed, frame);
        let mut settings = parsed.settings;
        if settings.mode == Mode::Auto
            && let Ok(attachment) = Attachment::open(&self.interface).await
        {
            settings.mode = attachment.record.settings.mode;
        }
        Some(Wanted {
            settings,
            file: self.file.as_ref().map(|file| file.path.clone()),
            ..Wanted::default()
        })
    }

    /// Tries a change, and keeps and saves it if the user says so.
    async fn attempt(&mut self, wanted: Wanted, text: &str) -> anyhow::Result<Next> {
        let interface = self.interface.clone();
        let path = self.file.as_ref().map(|file| file.path.clone());
        let advice = |client| match &path {
            Some(path) => allow_in(path, client),
            None => allow_first(&interface, client),
        };
        let lasts = Lasts::Trial(self.try_for);
        if let Err(error) = put_in_force(&interface, wanted, lasts, advice).await {
            note(&error.to_string());
            return self.after_mistake().await;
        }
        let choices = ["keep and save it", "revert it"];
        match self.dialog.ask(&choices, Some(self.try_for)).await? {
            Answer::Letter('k') => match end(&interface, false).await {
                Ok(Ended::Kept) => {
                    record_end(&interface, Ended::Kept).await;
                    report(&format!("{interface}: kept\n"));
                    self.save(text).await
                }
                // A later `keep` or `reload` of somebody else.
                Ok(_) => bail!("{interface}: the trial has ended meanwhile, and nothing was saved"),
                Err(error) => {
                    note(&error.to_string());
                    self.after_mistake().await
                }
            },
            Answer::TooLate => {
                note(&format!(
                    "{interface}: not kept in time: the settings before the trial are in force again"
                ));
                self.after_mistake().await
            }
            Answer::Letter(_) | Answer::End => {
                record_end(&interface, end(&interface, true).await?).await;
                report(&format!(
                    "{interface}: trial reverted; the settings before it are in force again\n"
                ));
                self.after_mistake().await
            }
        }
    }

    /// Writes the text to the file. One that has changed meanwhile is overwritten only if the user says so.
    async fn save(&mut self, text: &str) -> anyhow::Result<Next> {
        let interface = &self.interface;
        let Some(file) = &self.file else {
            note(&format!(
                "{interface} was not attached from a file, and a restart of the host forgets the settings: `limiter config save {interface} /etc/limiter/{interface}.toml` keeps them"
            ));
            return Ok(Next::Done);
        };
        let shown = file.path.display().to_string();
        let mut anyway = false;
        loop {
            match file.replace(text, anyway) {
                Ok(()) => break,
                Err(NotWritten::Changed) => {
                    note(&format!("{shown} was changed by another program meanwhile"));
                    let choices = ["overwrite it", "leave it"];
                    if self.dialog.ask(&choices, None).await? == Answer::Letter('o') {
                        anyway = true;
                        continue;
                    }
                    let kept = self.workshop.keep();
                    bail!(
                        "{shown} stays as it is, and {} has your text until the host restarts; {IN_FORCE}",
                        kept.display()
                    );
                }
                Err(NotWritten::Io(error)) => {
                    let kept = self.workshop.keep();
                    bail!(
                        "{shown} cannot be written ({error}), and {} has your text until the host restarts; {IN_FORCE}",
                        kept.display()
                    );
                }
            }
        }
        record(interface, "save", std::slice::from_ref(&shown));
        report(&format!("{interface}: saved in {shown}\n"));
        for other in sharing(interface, &file.path).await {
            note(&format!(
                "{shown} is the file of {other} too: `limiter config diff {other}` shows what a reload would change there"
            ));
        }
        Ok(Next::Done)
    }

    async fn after_mistake(&mut self) -> anyhow::Result<Next> {
        let choices = ["edit again", "discard"];
        match self.dialog.ask(&choices, None).await? {
            Answer::Letter('e') => Ok(Next::EditAgain),
            _ => Ok(self.discarded()),
        }
    }

    /// Ends without a change.
    fn discarded(&self) -> Next {
        let text = "unchanged: the edit was discarded";
        outcome(&self.interface, Extent::Nothing, text);
        Next::Done
    }
}

const IN_FORCE: &str = "`limiter status` shows which settings are in force";
