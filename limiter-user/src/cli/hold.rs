//! The process that `limiter attach --try` leaves behind, to end the trial. It is no verb for people,
//! and so not among those that clap knows: help, manual and completions would have it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::PathBuf,
    time::Duration,
};

use crate::{
    cli::output::write,
    kernel::state::trial::{Holder, READY, VERB},
};

/// Arguments of that process.
pub struct Hold {
    folder: PathBuf,
    duration: Duration,
}

/// The arguments, if this process was started as a holder: `limiter hold FOLDER MILLISECONDS`.
pub fn arguments(line: impl Iterator<Item = OsString>) -> Option<Hold> {
    let mut words = line.skip(1);
    words.next().filter(|verb| verb == OsStr::new(VERB))?;
    let folder = words.next()?.into();
    let milliseconds = words.next()?.to_str()?.parse().ok()?;
    words.next().is_none().then_some(Hold {
        folder,
        duration: Duration::from_millis(milliseconds),
    })
}

pub async fn run(Hold { folder, duration }: Hold) -> anyhow::Result<()> {
    let holder = match Holder::new(&folder, duration) {
        Ok(holder) => holder,
        Err(error) => {
            // Whoever started it listens there.
            write(&format!("{error}\n"))?;
            return Err(error.into());
        }
    };
    if ready().is_ok() {
        holder.hold().await;
    } else {
        // `attach` was killed: nobody has been told of a trial.
        holder.cancel().await;
    }
    Ok(())
}

/// Says so to `attach`, and lets go of it.
fn ready() -> io::Result<()> {
    write(READY)?;
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<(PathBuf, u128)> {
        arguments(words.iter().map(OsString::from))
            .map(|hold| (hold.folder, hold.duration.as_millis()))
    }

    #[test]
    fn only_the_whole_line_is_that_of_a_holder() {
        let folder = "/sys/fs/bpf/limiter/v3/eth0";
        assert_eq!(
            read(&["limiter", "hold", folder, "1500"]),
            Some((folder.into(), 1500))
        );
        for other in [
            &["limiter"][..],
            &["limiter", "hold"],
            &["limiter", "hold", folder],
            &["limiter", "hold", folder, "soon"],
            &["limiter", "hold", folder, "1500", "more"],
            &["limiter", "status", folder, "1500"],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
