//! The process that carries out the commands that users ask for in `top`. Users do not call this verb, so clap does not
//! know it.

use std::ffi::OsString;

use crate::helper::{DEEDS, Deed, attend_deeds};

/// Returns true if this process was started to carry out commands: `limiter deeds`.
pub fn are_asked_for(line: impl Iterator<Item = OsString>) -> bool {
    line.skip(1).eq([DEEDS])
}

/// Carries out commands until there is no one to ask for them.
pub async fn run() -> anyhow::Result<()> {
    let mut channel = attend_deeds()?;
    while let Some(deed) = channel.receive::<Deed>().await? {
        channel.send(&deed.run()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_command_line_asks_for_deeds() {
        for (line, are) in [
            (&["limiter", "deeds"][..], true),
            (&["limiter", "deeds", "more"], false),
            (&["limiter"], false),
            (&["limiter", "top"], false),
        ] {
            assert_eq!(
                are_asked_for(line.iter().map(OsString::from)),
                are,
                "{line:?}"
            );
        }
    }
}
