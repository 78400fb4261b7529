use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use limiter_config::{Mode, Settings};
use limiter_kernel::{
    Attachment,
    ops::set::{Lasts, Wanted, swap},
};

use crate::{
    cli::shared::{
        ForPrograms, Lasting, On, about, each, input::shown, note, read_for, report_changes,
        warn_of_change,
    },
    kept,
};

/// Apply a changed configuration file
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    on: On,
    /// Configuration file; - for standard input. Default: the file that was applied last
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Reload) -> anyhow::Result<()> {
    arguments.programs.changes();
    let reload = async |interface: &str| {
        let path = match &arguments.config {
            Some(path) => path,
            None => &last_file(interface).await?,
        };
        let (_, mut wanted) = read_for(&[interface.to_owned()], path).await?;
        keep_mode(interface, &mut wanted).await;
        let advice = |client| {
            allow_in(path, client) + ", or use --try 2m, which undoes the change after two minutes"
        };
        put_in_force(interface, wanted, arguments.lasting.lasts(), advice).await
    };
    each(&arguments.on.interfaces, reload).await
}

/// Keeps the mode of the attachment, which is fixed, if the file names none.
async fn keep_mode(interface: &str, wanted: &mut Wanted) {
    if wanted.settings.mode == Mode::Auto
        // The change itself reports why the attachment cannot be opened.
        && let Ok(attachment) = Attachment::open(interface).await
    {
        wanted.settings.mode = attachment.record.settings.mode;
    }
}

/// Swaps `wanted` into the attachment of `interface`. `advice` tells a user who works from a client how to keep the
/// session.
pub async fn put_in_force(
    interface: &str,
    wanted: Wanted,
    lasts: Lasts,
    advice: impl Fn(IpAddr) -> String,
) -> anyhow::Result<()> {
    let change = |attachment: &Attachment, _: &Settings| {
        Some(attachment.record.with_fleet(wanted.settings.clone()).0)
    };
    warn_of_change(interface, change, advice).await;
    let changed = swap(interface, lasts, |_| Ok(wanted.clone())).await;
    let changed = changed.map_err(about(interface))?;
    report_changes(interface, &changed, lasts, false);
    if lasts == Lasts::ForGood && changed.old.keep_bans != changed.new.keep_bans {
        kept::follow(interface)
            .await?
            .iter()
            .for_each(|text| note(text));
    }
    Ok(())
}

/// Advice for a user who works from `client` to keep the session, by a change of the file.
pub fn allow_in(file: &Path, client: IpAddr) -> String {
    format!(
        "allow = [\"{client}\"] under [lists] of {} lets it pass",
        shown(file)
    )
}

async fn last_file(interface: &str) -> anyhow::Result<PathBuf> {
    let attachment = Attachment::open(interface).await?;
    attachment.record.file.ok_or_else(|| {
        anyhow::anyhow!(
            "{interface} was not attached from a file: run `limiter reload {interface} --config FILE`, or change it with `limiter set {interface}`"
        )
    })
}
