//! Debugging: swaps in the build of the program that logs each packet, and the plain one back.

use std::{
    future::Future,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::kernel::{
    error::Result,
    ops::{set, set::Lasts},
    program::object::{Program, Variant},
};

/// How often the log is read. Its buffer has 128 KiB; what does not fit is lost.
const INTERVAL: Duration = Duration::from_millis(10);

/// An attachment that logs. It goes on limiting over the same maps.
///
/// The program that logs is a generation like any other, so that the other commands go on working.
/// If this process is killed it stays, and the next `set` puts a plain one in its place.
#[derive(Debug)]
pub struct Logging {
    name: String,
    program: Program,
    /// Whether the interface drops nothing.
    pub shadow: bool,
}

impl Logging {
    /// Swaps in the program that logs.
    pub async fn start(name: &str) -> Result<Self> {
        let swapped = set::swap(name, Variant::Log, Lasts::ForGood, Ok).await?;
        Ok(Self {
            name: name.to_owned(),
            program: swapped.program,
            shadow: swapped.new.shadow,
        })
    }

    /// Prints to standard output, each line in the words of `show`, until `stop` is ready or the output is
    /// closed, then swaps the plain program back.
    pub async fn print<T>(
        mut self,
        show: impl Fn(&str) -> String + Send + Sync,
        stop: impl Future<Output = T>,
    ) -> Result<()> {
        let printed = self.forward(show, stop).await;
        set::set(&self.name, Lasts::ForGood, |settings| Ok(settings.clone())).await?;
        printed
    }

    async fn forward<T>(
        &mut self,
        show: impl Fn(&str) -> String + Send + Sync,
        stop: impl Future<Output = T>,
    ) -> Result<()> {
        let sink = Sink {
            show,
            closed: AtomicBool::new(false),
        };
        let mut logger = self.program.logger(&sink)?;
        let mut interval = tokio::time::interval(INTERVAL);
        tokio::pin!(stop);
        while !sink.closed.load(Ordering::Relaxed) {
            tokio::select! {
                _ = &mut stop => break,
                _ = interval.tick() => logger.flush(),
            }
        }
        Ok(())
    }
}

/// Standard output, which may be a pipe that is closed at some time.
struct Sink<S> {
    show: S,
    closed: AtomicBool,
}

impl<S: Fn(&str) -> String + Send + Sync> log::Log for Sink<S> {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = (self.show)(&record.args().to_string());
        if writeln!(io::stdout(), "{line}").is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}
