//! A configuration file that is shown reads back, and reading never panics on any text.

use std::{fs, path::Path, sync::LazyLock};

use crate::exact::cases;
use crate::file_changes::{CORPUS, PIECES, change, changes};
use limiter_user::config::file::{File, parse, show};
use proptest::{collection::vec, prelude::*, sample::select};

/// A folder with the file that the corpus refers to.
fn folder() -> &'static Path {
    static FOLDER: LazyLock<&Path> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let list = "203.0.113.66\n2001:db8:1::/48\n";
        fs::write(folder.join("prefixes.txt"), list).expect("the folder is writable");
        folder
    });
    *FOLDER
}

fn reads_back(file: &File) -> Result<(), TestCaseError> {
    let shown = show(&file.interfaces, &file.settings);
    let read = parse(&shown, folder());
    prop_assert_eq!(read.as_ref(), Ok(file), "shown as\n{}", shown);
    Ok(())
}

/// True if the text is accepted. Accepted settings must be valid, and errors must have a line and a reason.
fn is_accepted(text: &str) -> Result<bool, TestCaseError> {
    match parse(text, folder()) {
        Ok(file) => {
            prop_assert_eq!(file.settings.problems(), vec![]);
            reads_back(&file)?;
            Ok(true)
        }
        Err(mistakes) => {
            let lines = text.split('\n').count();
            prop_assert!(!mistakes.is_empty(), "the error has no reason");
            prop_assert!(mistakes.is_sorted_by_key(|mistake| mistake.line));
            for mistake in mistakes {
                prop_assert!((1..=lines).contains(&mistake.line), "{}", mistake);
                prop_assert!(
                    !mistake.message.contains('\n') && mistake.message.contains([':', '?']),
                    "{}",
                    mistake
                );
            }
            Ok(false)
        }
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn damaged_files_are_read_or_refused(file in select(&CORPUS[..]), changes in vec(changes(), 1..6)) {
        let mut text = file.as_bytes().to_vec();
        for next in &changes {
            change(&mut text, next);
        }
        is_accepted(&String::from_utf8_lossy(&text))?;
    }

    #[test]
    fn any_text_is_read_or_refused(pieces in vec(prop_oneof![select(&PIECES[..]).prop_map(str::to_owned), ".{0,8}"], 0..40)) {
        is_accepted(&pieces.concat())?;
    }
}

/// The changes need valid files to begin with.
#[test]
fn corpus_files_are_accepted() {
    for file in CORPUS {
        let accepted = is_accepted(file).is_ok_and(|accepted| accepted);
        assert!(accepted, "{:?}", parse(file, folder()));
    }
}
