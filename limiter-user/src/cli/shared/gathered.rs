//! With `--json`, the results of a change and all notes become one document, which is printed at the end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::Args;

use crate::observe::{Changed, Changes};

// The option of commands that print one document. No doc comment: clap would make it the help of the verb.
#[derive(Clone, Copy, Debug, Args)]
pub struct ForPrograms {
    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// The kind of document that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Text for people.
    None,
    /// The answer to a question, which takes the notes with it.
    Answer,
    /// The results of a change.
    Changes,
}

struct Gathered {
    kind: Kind,
    changes: Changes,
}

static GATHERED: Mutex<Gathered> = Mutex::new(Gathered {
    kind: Kind::None,
    changes: Changes {
        results: Vec::new(),
        warnings: Vec::new(),
        errors: Vec::new(),
    },
});

fn gathered() -> MutexGuard<'static, Gathered> {
    GATHERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForPrograms {
    /// Gathers notes for the answer to a question.
    pub fn answer(self) {
        if self.json {
            gathered().kind = Kind::Answer;
        }
    }

    /// Gathers the results of a change, and the notes about it.
    pub fn changes(self) {
        if self.json {
            gathered().kind = Kind::Changes;
        }
    }
}

/// True if results are gathered, not printed.
pub fn gathers_changes() -> bool {
    gathered().kind == Kind::Changes
}

/// Gathers a result.
pub fn add(changed: Changed) {
    gathered().changes.results.push(changed);
}

/// Gathers a note that is printed too.
pub fn add_note(text: &str) {
    let mut gathered = gathered();
    if gathered.kind != Kind::None {
        gathered.changes.warnings.push(text.to_owned());
    }
}

/// Gathers an error that is printed too.
pub fn add_error(text: String) {
    let mut gathered = gathered();
    if gathered.kind == Kind::Changes {
        gathered.changes.errors.push(text);
    }
}

/// Drops the results: the changes were undone.
pub fn forget_results() {
    gathered().changes.results.clear();
}

/// The notes up to now.
pub fn notes() -> Vec<String> {
    gathered().changes.warnings.clone()
}

/// The document of a change, if there is one.
pub fn finish() -> Option<Changes> {
    let mut gathered = gathered();
    (gathered.kind == Kind::Changes).then(|| std::mem::take(&mut gathered.changes))
}
