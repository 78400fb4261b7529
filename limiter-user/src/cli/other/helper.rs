//! The process that keeps the privileges for `limiter export` and `limiter feed`. Users do not call this verb, so clap does not know it.

use std::ffi::OsString;

use crate::{
    feed,
    helper::{Question, VERB, attend},
    observe::Snapshot,
};

/// Returns true if this process was started as a helper: `limiter helper`.
pub fn is_one(line: impl Iterator<Item = OsString>) -> bool {
    line.skip(1).eq([VERB])
}

/// Answers questions until there is no one to ask.
pub async fn run() -> anyhow::Result<()> {
    let mut channel = attend()?;
    while let Some(question) = channel.receive().await? {
        match question {
            Question::Snapshot => {
                let taken = Snapshot::take().await.map_err(|error| error.to_string());
                channel.send(&taken).await?;
            }
            Question::Bans(asked) => channel.send(&feed::answer(asked).await?).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_command_line_starts_a_helper() {
        let is_one = |words: &[&str]| is_one(words.iter().map(OsString::from));
        assert!(is_one(&["limiter", "helper"]));
        for other in [
            &["limiter"][..],
            &["limiter", "helper", "more"],
            &["limiter", "export"],
        ] {
            assert!(!is_one(other), "{other:?}");
        }
    }
}
