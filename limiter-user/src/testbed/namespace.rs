//! An unnamed network namespace.

use std::{fs::File, os::fd::AsFd, sync::Arc, thread};

use nix::sched::{CloneFlags, setns, unshare};

use super::Error;

/// A network namespace, kept alive by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// Creates an empty namespace.
    pub fn new() -> Result<Self, Error> {
        // Uses another thread, so that the caller's namespace does not change.
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| Error::system("making a network namespace", error))?;
            File::open("/proc/thread-self/ns/net")
                .map(|file| Self(Arc::new(file)))
                .map_err(|error| Error::system("opening a network namespace", error))
        })
    }

    /// The namespace's descriptor.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Moves the calling thread into the namespace, for good.
    pub fn enter(&self) -> Result<(), Error> {
        setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(|error| Error::system("entering a network namespace", error))
    }

    /// Runs `work` in the namespace, in a new thread, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Runs asynchronous `work` in the namespace, in a new thread with a runtime.
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

    /// Starts `work` in the namespace, in a new thread that continues.
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
        // A panic of the thread continues here.
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
