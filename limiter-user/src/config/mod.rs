//! Configuration: what is written → what is meant → what the kernel gets.
//!
//! Knows nothing of aya, maps or interfaces.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

pub mod burst;
pub mod compile;
pub mod connection;
pub mod difference;
pub mod file;
pub mod key;
pub mod lists;
pub mod matches;
pub mod number;
pub mod rate;
pub mod settings;
pub mod spread;
pub mod terms;

pub use burst::Burst;
pub use key::Key;
pub use lists::Lists;
pub use matches::Match;
pub use rate::{Rate, Unit};
pub use settings::{Algorithm, Exempt, Limit, Malformed, Mode, NewSources, Scope, Settings};

/// A value that cannot be used, and why. Ends with what to write instead.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}", on_one_line(.0))]
pub struct Invalid(pub String);

impl Invalid {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A file of text longer than this is none that anybody has written: four million prefixes fit.
const TEXT_MOST: u64 = 64 << 20;

/// Reads a file of text. One that does not end, as `/dev/zero`, is refused.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    if file.take(TEXT_MOST + 1).read_to_string(&mut text)? as u64 > TEXT_MOST {
        let longest = TEXT_MOST >> 20;
        return Err(io::Error::other(format!("longer than {longest} MiB")));
    }
    Ok(text)
}

/// What was written may hold anything: newlines, what a terminal would obey, and much of it. Its
/// middle tells least: what is wrong stands in front, and what to write behind.
pub(crate) fn on_one_line(message: &str) -> String {
    const LONGEST: usize = 600;
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    let count = line.chars().count();
    if count <= LONGEST {
        return line;
    }
    let front: String = line.chars().take(LONGEST / 2).collect();
    let back: String = line.chars().skip(count - LONGEST / 2).collect();
    format!("{front} … {back}")
}

#[cfg(test)]
mod tests {
    use super::{Invalid, read_text};

    #[test]
    fn a_file_without_an_end_is_refused() {
        let why = read_text("/dev/zero".as_ref()).unwrap_err().to_string();
        assert_eq!(why, "longer than 64 MiB");
        assert!(read_text("/dev/null".as_ref()).is_ok_and(|text| text.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_told_on_one_line() {
        let told = Invalid::new("'a\u{1b}[2J\n' is no rate").to_string();
        assert_eq!(told, "'a\\u{1b}[2J\\n' is no rate");
    }
}
