//! The process that keeps the privileges for `export`, `feed` and `notify`. Users do not call this verb, so clap does
//! not know it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use limiter_kernel::Error;

use crate::{
    chronicle::Floods,
    cli::{lists::bans, observe::check},
    feed::Bans,
    helper::{Question, VERB, attend},
    observe::{Counted, Snapshot},
};

/// The origin whose bans a helper may change, or an empty one, and the Unix socket of its feed; none if this process was
/// not started as a helper: `limiter helper [ORIGIN [SOCKET]]`.
pub fn origin(line: impl Iterator<Item = OsString>) -> Option<(String, Option<PathBuf>)> {
    let words: Vec<_> = line.skip(1).map(|word| word.into_string().ok()).collect();
    match &words[..] {
        [Some(verb)] if verb == VERB => Some((String::new(), None)),
        [Some(verb), Some(origin)] if verb == VERB => Some((origin.clone(), None)),
        [Some(verb), Some(origin), Some(path)] if verb == VERB => {
            Some((origin.clone(), Some(path.into())))
        }
        _ => None,
    }
}

/// Answers questions until there is no one to ask.
pub async fn run((origin, socket): (String, Option<PathBuf>)) -> anyhow::Result<()> {
    let mut channel = attend(socket)?;
    let mut own_bans = Bans::of(&origin);
    let (mut floods, mut is_first) = (Floods::default(), true);
    while let Some(question) = channel.receive().await? {
        let is_first = std::mem::replace(&mut is_first, false);
        match question {
            Question::Snapshot => {
                let snapshot = Snapshot::take().await.map_err(text);
                if let Ok(snapshot) = &snapshot {
                    let interfaces = snapshot.status.interfaces.iter();
                    floods.step(interfaces.map(|interface| {
                        (interface.name.clone(), interface.verdicts.dropped.packets)
                    }));
                }
                channel.send(&snapshot).await?;
            }
            Question::Counts => {
                let counted = Counted::all().await.map_err(text);
                if let Ok(counted) = &counted {
                    floods.step(
                        counted.iter().map(|counted| {
                            (counted.name.clone(), counted.verdicts.dropped.packets)
                        }),
                    );
                }
                channel.send(&counted).await?;
            }
            Question::Floods(drops, window) if is_first => {
                floods = Floods::of_notify(drops, Duration::from_millis(window));
            }
            Question::Check(about) => channel.send(&check::answer(&about).await).await?,
            Question::AllBans(about) => channel.send(&bans::answer(&about).await).await?,
            // A process without an origin is told nothing, and ends.
            _ if origin.is_empty() => break,
            Question::Floods(..) => break,
            Question::Bans(interfaces) => channel.send(&own_bans.own(interfaces).await).await?,
            Question::Change(interface, edit) => {
                let changed = own_bans.change(&interface, edit).await;
                channel.send(&changed.map_err(text)).await?;
            }
            Question::Forget => {
                own_bans.forget();
                channel.send(&Ok::<_, String>(())).await?;
            }
        }
    }
    Ok(())
}

fn text(error: Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_command_line_starts_a_helper() {
        let origin = |words: &[&str]| origin(words.iter().map(OsString::from));
        for (line, parts) in [
            (&["limiter", "helper"][..], ("", None)),
            (&["limiter", "helper", "drop"], ("drop", None)),
            (&["limiter", "helper", "a", "/s"], ("a", Some("/s".into()))),
        ] {
            assert_eq!(origin(line), Some((parts.0.to_owned(), parts.1)));
        }
        for other in [
            &["limiter"][..],
            &["limiter", "helper", "drop", "/s", "more"],
            &["limiter", "export"],
        ] {
            assert_eq!(origin(other), None, "{other:?}");
        }
    }
}
