//! Work on several interfaces at once: the verifier takes most of the time of a change, and one processor.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::runtime::Builder;

use super::output;

/// A text that was printed, and whether it is for standard error.
type Printed = (bool, String);

thread_local! {
    /// Texts of this thread, which are printed when its work is done.
    static KEPT: RefCell<Option<Vec<Printed>>> = const { RefCell::new(None) };
}

/// Keeps a text for later, in a thread of [`at_once`]. Returns it anywhere else.
pub fn keep(is_error: bool, text: String) -> Result<(), String> {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => {
            kept.push((is_error, text));
            Ok(())
        }
        None => Err(text),
    })
}

/// Does `work` on each of `names`, on as many at once as there are processors. Returns the results, in the order of
/// `names`. Prints what the work prints in that order too.
pub async fn at_once<T: Send>(
    names: &[&str],
    work: impl AsyncFn(&str) -> anyhow::Result<T> + Sync,
) -> Vec<anyhow::Result<T>> {
    if let [name] = names {
        return vec![work(name).await];
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
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
            if let Ok(mut done) = done.lock() {
                done.insert(index, (kept, result));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..cpus.min(names.len()) {
            scope.spawn(run);
        }
    });
    let done = done.into_inner().unwrap_or_default();
    let print = |(kept, result): (Vec<Printed>, _)| {
        for (is_error, text) in kept {
            if is_error {
                let _ = io::stderr().write_all(text.as_bytes());
            } else {
                output::report(&text);
            }
        }
        result
    };
    done.into_values().map(print).collect()
}
