//! An unnamed network namespace.

use std::{
    fs::File,
    io::{self, Write as _},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace, kept alive by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// Creates an empty namespace. Needs `CAP_SYS_ADMIN`.
    pub fn new() -> io::Result<Self> {
        // Uses another thread, so that the caller's namespace does not change.
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let file = File::open("/proc/thread-self/ns/net")?;
            Ok(Self(Arc::new(file)))
        })
    }

    /// The namespace's descriptor.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Runs `work` in the namespace, in a new thread, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// Runs asynchronous `work` in the namespace, in a new thread with a runtime.
    pub fn block_on<F>(&self, work: impl FnOnce() -> F + Send) -> io::Result<F::Output>
    where
        F: Future,
        F::Output: Send,
    {
        self.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Ok(runtime.block_on(work()))
        })?
    }

    /// Gives `lines` to `ip -batch` in the namespace.
    pub fn ip(&self, lines: &str) -> io::Result<()> {
        self.run(|| {
            let mut ip = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = ip.stdin.take() {
                stdin.write_all(lines.as_bytes())?;
            }
            if !ip.wait()?.success() {
                return Err(io::Error::other(format!("ip failed: {lines}")));
            }
            Ok(())
        })?
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        // A panic of the thread continues here.
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
