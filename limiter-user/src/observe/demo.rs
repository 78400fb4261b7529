//! What the demonstration measures, and what the mathematics says about it.

use std::time::Duration;

/// All figures at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Where the program runs.
    pub mode: &'static str,
    /// Since the start.
    pub elapsed: Duration,
    /// Packets a second that a source may send.
    pub rate: u64,
    /// Packets at once.
    pub burst: u64,
    /// One for each client.
    pub rows: Vec<Row>,
}

/// One client.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who it is.
    pub name: &'static str,
    /// Its bucket's key.
    pub source: String,
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that arrived in the server's socket.
    pub passed: u64,
    /// Packets that the limiter dropped.
    pub dropped: u64,
    /// From its first packet to its last.
    pub sending_for: Duration,
}

impl Figures {
    /// The most that may have passed from a client: burst + rate × time, and not more than it sent.
    #[must_use]
    pub fn allowed(&self, row: &Row) -> u64 {
        let refilled = u128::from(self.rate) * row.sending_for.as_nanos() / 1_000_000_000;
        (self.burst + u64::try_from(refilled).unwrap_or(u64::MAX)).min(row.sent)
    }

    /// Whether what passed is what the mathematics allows, but for the one token by which the moment
    /// of sending and that of arrival may differ, and whether every packet is accounted for.
    #[must_use]
    pub fn agrees(&self, row: &Row) -> bool {
        row.passed.abs_diff(self.allowed(row)) <= 1 && row.sent == row.passed + row.dropped
    }
}
