//! Signals, which must not leave the terminal as the view has it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// To end.
    Leave,
    /// To stop for a while.
    Stop,
    /// That the while is over, or that somebody else had stopped this.
    GoOn,
}

/// Those that say something.
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
    /// From now on they do nothing by themselves.
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

    /// Waits for one.
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
