//! Progress on a terminal, for work of more than a second. If standard error is no terminal, nothing is shown.

use std::{
    io::{self, IsTerminal},
    path::Path,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{plan::capture::Capture, show::units::counted};

/// Work that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two pictures.
const INTERVAL: Duration = Duration::from_millis(200);

/// The bar on the terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Work whose progress is shown until this is dropped.
pub struct Progress {
    bar: ProgressBar,
    // Told to end by the end of the channel.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Work of unknown length, called `name`.
    pub fn of_work(name: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(name.to_owned());
        Self::begin(bar, "{spinner} {msg}, {elapsed}")
    }

    /// Work of so many seconds.
    pub fn of_time(seconds: u64) -> Self {
        Self::begin(
            ProgressBar::new(seconds),
            "{elapsed} {wide_bar} {msg}, {eta} left",
        )
    }

    /// The reading of a capture: the part of a file that was read, or a number of packets.
    pub fn of_capture(path: &Path) -> Self {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file);
        match metadata {
            Some(metadata) => Self::begin(
                ProgressBar::new(metadata.len()),
                "{percent} % {wide_bar} {msg}, {eta} left",
            ),
            None => Self::begin(ProgressBar::new_spinner(), "{spinner} {msg}"),
        }
    }

    fn begin(bar: ProgressBar, template: &str) -> Self {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let mut progress = Self {
            bar,
            stop: None,
            thread: None,
        };
        if io::stderr().is_terminal() {
            let (stop, stopped) = mpsc::channel();
            let bar = progress.bar.clone();
            progress.stop = Some(stop);
            progress.thread = Some(thread::spawn(move || draw(bar, &stopped)));
        }
        progress
    }

    /// Shows how far the work is.
    pub fn set(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.bar.set_message(message);
    }

    /// Shows how much of a capture was read, once in a while.
    pub fn set_read(&self, capture: &Capture) {
        const EVERY: u64 = 8_192;
        if capture.packets.is_multiple_of(EVERY) {
            self.set(capture.bytes(), counted(capture.packets, "packet"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        shown().take();
        self.bar.finish_and_clear();
    }
}

/// Draws the bar until the work is done.
fn draw(bar: ProgressBar, stopped: &mpsc::Receiver<()>) {
    let goes_on = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    *shown() = Some(bar.clone());
    while goes_on(INTERVAL) {
        bar.tick();
    }
}

/// Runs `print` while no bar is on the terminal.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    // Not locked while it prints: it may print a note about what it could not print.
    let bar = shown().clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

fn shown() -> std::sync::MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
