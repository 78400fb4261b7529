//! The process that keeps the privileges for `export`, `feed` and `notify`. Users do not call this verb, so clap does
//! not know it.

use std::ffi::OsString;

use crate::{
    feed,
    helper::{Question, VERB, attend},
    observe::{Snapshot, feeds},
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
    while let Some(question) = channel.receive().await? {
        match question {
            Question::Snapshot => {
                let taken = Snapshot::take().await.map_err(|error| error.to_string());
                channel.send(&taken).await?;
            }
            // A process without an origin is told nothing, and ends.
            _ if origin.is_empty() => break,
            Question::Bans(on) => channel.send(&feed::own(&origin, on).await).await?,
            Question::Change(interface, edit) => {
                let changed = feed::change(&interface, &origin, edit).await;
                let changed = changed.map_err(|error| error.to_string());
                channel.send(&changed).await?;
            }
            Question::Forget => {
                let _ = feeds::remove(&origin);
                channel.send(&Ok::<_, String>(())).await?;
            }
        }
    }
    Ok(())
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
