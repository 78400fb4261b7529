//! The results of the demonstration, compared with the expected ones.

use std::time::Duration;

use limiter_user::show::{table::table, units::grouped};

use super::{BURST, RATE};

/// The counters of all clients at one moment.
#[derive(Debug)]
pub struct Outcome {
    /// Time since the start.
    pub elapsed: Duration,
    pub rows: Vec<Row>,
}

/// The counters of one client.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// Key of the client's bucket.
    pub source: String,
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that the server's socket received.
    pub passed: u64,
    /// Packets that limiter dropped.
    pub dropped: u64,
    /// Time from the first packet to the last.
    pub sending_for: Duration,
}

impl Row {
    /// The maximum number of packets that may pass: burst + rate × time, but at most the packets sent.
    fn allowed(&self) -> u64 {
        let refilled = u128::from(RATE) * self.sending_for.as_nanos() / 1_000_000_000;
        (BURST + u64::try_from(refilled).unwrap_or(u64::MAX)).min(self.sent)
    }

    /// Returns true if every packet is accounted for, and the packets passed are as expected. One packet more or less
    /// is allowed, because sending and arrival differ in time.
    fn agrees(&self) -> bool {
        self.passed.abs_diff(self.allowed()) <= 1 && self.sent == self.passed + self.dropped
    }
}

impl Outcome {
    /// Returns true if the results of all clients are as expected.
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(Row::agrees)
    }

    /// The counters as a table.
    pub fn table(&self) -> String {
        let row = |row: &Row| {
            [
                row.name.to_owned(),
                row.source.clone(),
                grouped(row.sent),
                grouped(row.passed),
                grouped(row.dropped),
                grouped(row.allowed()),
            ]
        };
        let columns = ["CLIENT", "SOURCE", "SENT", "PASSED", "DROPPED", "ALLOWED"];
        format!(
            "{:4.1} s  limit {RATE}/s, burst {BURST}\n\n{}\n",
            self.elapsed.as_secs_f64(),
            table(columns, 2, self.rows.iter().map(row))
        )
    }

    /// The conclusion in words.
    pub fn conclusion(&self) -> String {
        if !self.agrees() {
            return "The numbers of received packets are NOT as expected.".to_owned();
        }
        format!(
            "The numbers of received packets are as expected: {BURST} at once, then {RATE} per second. The polite client lost no packet."
        )
    }
}
