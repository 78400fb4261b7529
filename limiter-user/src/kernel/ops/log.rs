//! Debugging: swaps in the build of the program that logs each packet, and later the plain one again.

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

/// Interval between reads of the log. Its buffer has 128 KiB; messages that do not fit are lost.
const INTERVAL: Duration = Duration::from_millis(10);

/// An attachment that logs. It continues to limit over the same maps.
///
/// The program that logs is a generation like any other, so other commands continue to work. If this process is
/// killed, that program stays, and the next `set` replaces it with a plain one.
#[derive(Debug)]
pub struct Logging {
    name: String,
    program: Program,
    /// Shadow mode: the interface drops nothing.
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

    /// Prints to standard output, each line formatted by `show`, until `stop` is ready or the output is closed. Then
    /// swaps the plain program in again.
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

/// Standard output, which may be a pipe that its reader closes.
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
