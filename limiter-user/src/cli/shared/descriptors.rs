//! File descriptors of this process: each opened pin is one.

use std::{fs::File, io};

use anyhow::ensure;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Builder;

/// Descriptors that any command can do with, if it works on one attachment at a time. A trial has two programs with all
/// their maps open.
const NEEDED: usize = 128;

/// Raises the number of descriptors to what this process may have. The usual 1,024 protect programs that use `select`;
/// limiter does not.
pub fn raise() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A lower limit is checked.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Fails if too few descriptors are left, before anything has changed.
pub fn check() -> anyhow::Result<()> {
    let opened = (0..NEEDED).map(|_| File::open("/dev/null"));
    let opened: Vec<File> = opened.map_while(Result::ok).collect();
    let is_short = opened.len() < NEEDED
        && File::open("/dev/null").is_err_and(|error| advice(&error.to_string()).is_some());
    ensure!(
        !is_short,
        "only {} more files can be opened, and limiter needs {NEEDED}: {RAISE}",
        opened.len()
    );
    Ok(())
}

/// The result of `work` before a command line is read. None if too few descriptors are left: tokio panics without them.
pub fn early<T>(work: impl Future<Output = T>) -> Option<T> {
    check().ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    Some(runtime.block_on(work))
}

/// Number of threads that may work on one of `interfaces` attachments each. Besides its own, each holds the pins of all
/// others, of which a survey opens three.
pub fn workers(interfaces: usize) -> usize {
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(allowed, _)| allowed);
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    (allowed / (NEEDED + 3 * interfaces)).max(1)
}

const RAISE: &str =
    "raise the limit of open files, as with `ulimit -n 1024`, or with LimitNOFILE= in a unit";

/// Advice for a message with the error that no descriptor is left.
pub fn advice(message: &str) -> Option<&'static str> {
    let is_full = [libc::EMFILE, libc::ENFILE]
        .iter()
        .any(|error| message.contains(&io::Error::from_raw_os_error(*error).to_string()));
    is_full.then_some(RAISE)
}
