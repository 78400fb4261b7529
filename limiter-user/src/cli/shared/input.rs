//! A configuration on standard input (`--config -`).

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    os::fd::AsFd,
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

use limiter_config::files::TEXT_MOST;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd,
};

use super::note;

/// The path that stands for standard input.
const INPUT: &str = "-";
/// The time for the whole text. Nothing is locked meanwhile.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns true if a path stands for standard input.
pub fn is_input(path: &Path) -> bool {
    path.as_os_str() == INPUT
}

/// Returns true if a word of the command line stands for standard input, and that is a terminal.
pub fn may_be_typed(mut words: impl Iterator<Item = OsString>) -> bool {
    io::stdin().is_terminal()
        && words.any(|word| word == INPUT || word.as_encoded_bytes().ends_with(b"=-"))
}

/// A path in messages.
pub fn shown(path: &Path) -> String {
    match is_input(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// The whole text on standard input. It is read once, also if several interfaces get it.
pub fn text() -> Result<&'static str, String> {
    static TEXT: OnceLock<Result<String, String>> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let input = io::stdin();
        if input.is_terminal() {
            note("reading the configuration from this terminal: Ctrl-D ends it");
        }
        let bytes = read(input, TEXT_MOST, LONGEST)?;
        String::from_utf8(bytes).map_err(|_| "not text in UTF-8".to_owned())
    });
    text.as_deref().map_err(Clone::clone)
}

/// Reads to the end: at most `most` bytes, for at most `longest`.
fn read(input: impl AsFd, most: u64, longest: Duration) -> Result<Vec<u8>, String> {
    let began = Instant::now();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let left = longest.saturating_sub(began.elapsed());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, left) {
            Err(nix::Error::EINTR) => continue,
            Err(why) => return Err(why.to_string()),
            Ok(0) => {
                let longest = humantime::format_duration(longest);
                return Err(format!("it has not ended after {longest}"));
            }
            Ok(_) => {}
        }
        match unistd::read(&input, &mut buffer) {
            Err(nix::Error::EINTR) => {}
            Err(why) => return Err(why.to_string()),
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes.len() as u64 > most {
            return Err(format!("it is longer than {} MiB", most >> 20));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, time::Duration};

    use super::read;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn input_is_read_to_its_end() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"rate = 5").unwrap();
        drop(writer);
        assert_eq!(read(reader, 8, SHORT).unwrap(), b"rate = 5");
    }

    #[test]
    fn input_without_end_is_refused_by_bytes_and_by_time() {
        let endless = File::open("/dev/zero").unwrap();
        let why = read(endless, 1 << 20, Duration::from_secs(60)).unwrap_err();
        assert_eq!(why, "it is longer than 1 MiB");
        let (reader, _writer) = std::io::pipe().unwrap();
        let why = read(reader, 8, SHORT).unwrap_err();
        assert_eq!(why, "it has not ended after 50ms");
    }
}
