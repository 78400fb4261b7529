//! A network namespace without a name.

use std::{fs::File, os::fd::AsFd, sync::Arc, thread};

use nix::sched::{CloneFlags, setns, unshare};

use super::Error;

/// Kept alive by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// A new, empty one.
    pub fn new() -> Result<Self, Error> {
        // A thread of its own: the caller's namespace stays what it is.
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| Error::system("making a network namespace", error))?;
            File::open("/proc/thread-self/ns/net")
                .map(|file| Self(Arc::new(file)))
                .map_err(|error| Error::system("opening a network namespace", error))
        })
    }

    /// Its descriptor.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Makes the calling thread a part of it, for good.
    pub fn enter(&self) -> Result<(), Error> {
        setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(|error| Error::system("entering a network namespace", error))
    }

    /// Runs `work` inside, in a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Runs `work` inside, in a thread of its own with a runtime for asynchronous work.
    pub fn block_on<F>(&self, work: impl FnOnce() -> F + Send) -> Result<F::Output, Error>
    where
        F: Future,
        F::Output: Send,
    {
        in_thread(|| {
            self.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Error::system("starting a runtime", error))?;
            Ok(runtime.block_on(work()))
        })
    }

    /// Starts `work` inside, in a thread that goes on.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<Result<T, Error>> {
        let inside = self.clone();
        thread::spawn(move || {
            inside.enter()?;
            Ok(work())
        })
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        // A panic in there is a panic here.
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
