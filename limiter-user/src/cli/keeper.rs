//! The process that keeps the privileges for `limiter export` and `limiter top`. It is no verb for people, and so not
//! among those that clap knows.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use crate::{
    cli::top::actions,
    keeper::{Channel, VERB, attend},
    kernel::Attachment,
    stats::{
        collect,
        live::{Gauge, Sample, Wanted},
        snapshot::{Snapshot, TakeSnapshot},
    },
    view::top::Action,
};

/// For whom it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// `export`: reads all attachments.
    Export,
    /// `top`: reads this interface's, and does what the view's keys do.
    Top(String),
}

/// The word for [`Keeper::Export`].
pub const EXPORT: &str = "export";
/// The word for [`Keeper::Top`], before the interface.
pub const TOP: &str = "top";

/// The arguments, if this process was started as one: `limiter keeper export`, `limiter keeper top IFACE`.
pub fn arguments(line: impl Iterator<Item = OsString>) -> Option<Keeper> {
    let words: Vec<OsString> = line.skip(1).collect();
    let words: Vec<&str> = words
        .iter()
        .filter_map(|word| OsStr::to_str(word))
        .collect();
    match words[..] {
        [VERB, EXPORT] => Some(Keeper::Export),
        [VERB, TOP, interface] => Some(Keeper::Top(interface.to_owned())),
        _ => None,
    }
}

/// What the view asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// What is to be shown: a `Result<Sample, String>`.
    Look(Wanted),
    /// What must be known before it is confirmed: an `Option<String>`.
    Weigh(Action),
    /// To do it: a `Result<String, String>`.
    Do(Action),
}

pub async fn run(keeper: Keeper) -> anyhow::Result<()> {
    let channel = attend()?;
    match keeper {
        Keeper::Export => for_export(channel).await,
        Keeper::Top(interface) => for_top(channel, &interface).await,
    }
}

async fn for_export(mut channel: Channel) -> anyhow::Result<()> {
    while let Some(TakeSnapshot) = channel.question().await? {
        let taken = Snapshot::take().await.map_err(|error| error.to_string());
        channel.answer(&taken).await?;
    }
    Ok(())
}

async fn for_top(mut channel: Channel, interface: &str) -> anyhow::Result<()> {
    let mut gauge = Gauge::default();
    while let Some(question) = channel.question().await? {
        match question {
            Question::Look(wanted) => {
                let sample = look(interface, &wanted, &mut gauge).await;
                channel
                    .answer(&sample.map_err(|error| error.to_string()))
                    .await?;
            }
            Question::Weigh(action) => {
                let warning = actions::warning(interface, action).await;
                channel.answer(&warning).await?;
            }
            Question::Do(action) => {
                let done = actions::run(interface, action).await;
                channel.answer(&done).await?;
            }
        }
    }
    Ok(())
}

/// Opens the attachment anew each time: a change has brought another program meanwhile, or there is none any more.
async fn look(
    interface: &str,
    wanted: &Wanted,
    gauge: &mut Gauge,
) -> Result<Sample, crate::kernel::Error> {
    let attachment = Attachment::open(interface).await?;
    collect::sample(&attachment, wanted, gauge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_line_is_that_of_a_keeper() {
        let read = |words: &[&str]| arguments(words.iter().map(OsString::from));
        assert_eq!(read(&["limiter", "keeper", "export"]), Some(Keeper::Export));
        assert_eq!(
            read(&["limiter", "keeper", "top", "eth0"]),
            Some(Keeper::Top("eth0".to_owned()))
        );
        for other in [
            &["limiter"][..],
            &["limiter", "keeper"],
            &["limiter", "keeper", "top"],
            &["limiter", "keeper", "export", "more"],
            &["limiter", "top", "eth0"],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
