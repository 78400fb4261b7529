//! Signals. The process must restore the terminal before it obeys them.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// End the process.
    Leave,
    /// Stop the process for a while.
    Stop,
    /// Continue after a stop, even one that another process caused.
    GoOn,
}

/// The signals that are handled.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
    stop: Signal,
    go_on: Signal,
}

impl Signals {
    /// Registers the handlers. From now on the signals have no default action.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stop: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            go_on: signal(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// Waits for a signal.
    pub async fn next(&mut self) -> Said {
        tokio::select! {
            _ = self.interrupt.recv() => Said::Leave,
            _ = self.terminate.recv() => Said::Leave,
            _ = self.hang_up.recv() => Said::Leave,
            _ = self.quit.recv() => Said::Leave,
            _ = self.stop.recv() => Said::Stop,
            _ = self.go_on.recv() => Said::GoOn,
        }
    }
}
