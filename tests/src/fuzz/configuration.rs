//! Fuzz target for the configuration file.

use std::path::Path;

use limiter_config::file::{parse, show};

use super::message::expect_one_line;

/// Reads a file. Accepted settings are valid, compile, and read back as equal ones. Errors have a line.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let folder = Path::new("/nowhere");
    match parse(&text, folder) {
        Ok(file) => {
            assert_eq!(file.settings.problems(), []);
            let shown = show(&file.interfaces, &file.settings);
            assert_eq!(
                parse(&shown, folder).as_ref(),
                Ok(&file),
                "shown as\n{shown}"
            );
            let _ = limiter_user::plan::replay::Compiled::new(&file.settings);
        }
        Err(mistakes) => {
            let lines = text.split('\n').count();
            assert!(!mistakes.is_empty(), "the error has no message");
            assert!(mistakes.is_sorted_by_key(|mistake| mistake.line));
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line), "{mistake}");
                assert!(mistake.message.contains([':', '?']), "{mistake}");
                expect_one_line(&mistake.message);
            }
        }
    }
}
