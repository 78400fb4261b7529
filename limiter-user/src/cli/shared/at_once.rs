//! Work on several interfaces at once: the verifier takes most of the time of a change, and one processor.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::runtime::Builder;

use super::{descriptors, output};
use crate::observe::Changed;

/// A text to print.
pub enum Text {
    /// An answer, printed as it is. If it cannot be printed, the work on its interface has failed.
    Answer(String),
    /// The result of a change, which is in force.
    Report(String),
    /// The result of a change, for the document of `--json`.
    Result(Box<Changed>),
    /// A line for standard error.
    Note(String),
}

thread_local! {
    /// Texts of this thread, which are printed when its work is done.
    static KEPT: RefCell<Option<Vec<Text>>> = const { RefCell::new(None) };
}

/// Keeps a text for later, in a thread of [`at_once`]. Returns it anywhere else.
pub fn keep(text: Text) -> Result<(), Text> {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.push(text);
            Ok(())
        }
        None => Err(text),
    })
}

/// The notes that this thread keeps.
pub fn notes() -> Vec<String> {
    KEPT.with_borrow(|kept| {
        let kept = kept.iter().flatten();
        let notes = kept.filter_map(|text| match text {
            Text::Note(text) => Some(text.clone()),
            _ => None,
        });
        notes.collect()
    })
}

/// Does `work` on each of `names`, on as many at once as there are processors and file descriptors for. Returns the results,
/// in the order of `names`. Prints what the work prints in that order too, as soon as it is done.
pub async fn at_once<T: Send>(
    names: &[&str],
    work: impl AsyncFn(&str) -> anyhow::Result<T> + Sync,
) -> Vec<anyhow::Result<T>> {
    if let [name] = names {
        return vec![work(name).await];
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = cpus.min(names.len()).min(descriptors::workers(names.len()));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Done::new()));
    let run = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(name) = names.get(index)
        {
            KEPT.set(Some(Vec::new()));
            let runtime = Builder::new_current_thread().enable_all().build();
            let result = match runtime {
                Ok(runtime) => runtime.block_on(work(name)),
                Err(error) => Err(error.into()),
            };
            let kept = KEPT.take().unwrap_or_default();
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.add(index, kept, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run);
        }
    });
    done.into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .printed
}

/// Results, which are printed in order.
struct Done<T> {
    /// The results that were printed.
    printed: Vec<anyhow::Result<T>>,
    /// Those that wait for earlier ones, by index.
    waiting: BTreeMap<usize, (Vec<Text>, anyhow::Result<T>)>,
}

impl<T> Done<T> {
    fn new() -> Self {
        Self {
            printed: Vec::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn add(&mut self, index: usize, kept: Vec<Text>, result: anyhow::Result<T>) {
        self.waiting.insert(index, (kept, result));
        while let Some((kept, result)) = self.waiting.remove(&self.printed.len()) {
            let mut result = result;
            for text in kept {
                if let Err(error) = output::put(text)
                    && result.is_ok()
                {
                    result = Err(error.into());
                }
            }
            self.printed.push(result);
        }
    }
}
