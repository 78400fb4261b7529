//! The process that keeps the privileges for `export`, `feed` and `notify`. Users do not call this verb, so clap does
//! not know it.

use std::ffi::OsString;

use limiter_kernel::Error;

use crate::{
    feed::Bans,
    helper::{Question, VERB, attend},
    observe::Snapshot,
};

/// The origin whose bans a helper may change, or an empty one; none if this process was not started as a helper:
/// `limiter helper [ORIGIN]`.
pub fn origin(line: impl Iterator<Item = OsString>) -> Option<String> {
    let words: Vec<_> = line.skip(1).map(|word| word.into_string().ok()).collect();
    match &words[..] {
        [Some(verb)] if verb == VERB => Some(String::new()),
        [Some(verb), Some(origin)] if verb == VERB => Some(origin.clone()),
        _ => None,
    }
}

/// Answers questions until there is no one to ask.
pub async fn run(origin: String) -> anyhow::Result<()> {
    let mut channel = attend()?;
    let mut bans = Bans::of(&origin);
    while let Some(question) = channel.receive().await? {
        match question {
            Question::Snapshot => {
                channel.send(&Snapshot::take().await.map_err(text)).await?;
            }
            // A process without an origin is told nothing, and ends.
            _ if origin.is_empty() => break,
            Question::Bans(interfaces) => channel.send(&bans.own(interfaces).await).await?,
            Question::Change(interface, edit) => {
                let changed = bans.change(&interface, edit).await;
                channel.send(&changed.map_err(text)).await?;
            }
            Question::Forget => {
                bans.forget();
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
        assert_eq!(origin(&["limiter", "helper"]).as_deref(), Some(""));
        assert_eq!(
            origin(&["limiter", "helper", "drop"]).as_deref(),
            Some("drop")
        );
        for other in [
            &["limiter"][..],
            &["limiter", "helper", "drop", "more"],
            &["limiter", "export"],
        ] {
            assert_eq!(origin(other), None, "{other:?}");
        }
    }
}
