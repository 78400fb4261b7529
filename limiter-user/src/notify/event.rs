//! An event as programs and people read it.

use std::time::SystemTime;

use limiter_kernel::sys::clock;
use serde::Serialize;

use super::course::Course;
use crate::{
    observe::{Interface, own_name},
    show::units::{counted, whole, whole_packets},
};

/// The most sources that an event names.
pub const SOURCES: usize = 5;

/// Standard input of the program, or the body of the POST.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Event {
    /// `flood`, `table-full` or `detached`; `test` of `notify --test`.
    pub event: String,
    /// `begin` or `end`.
    pub state: &'static str,
    /// Name of the host.
    pub host: String,
    /// Name of the interface.
    pub interface: String,
    /// Time of the event, RFC 3339: `--window` after the beginning, or the end, of the condition.
    pub time: String,
    /// The event in a few words, as a title.
    pub subject: String,
    /// The event in one line, for people, with the command to type next.
    pub text: String,
    /// The command to type next.
    pub next: String,
    /// Packets dropped per second; null without two readings.
    pub drops_per_second: Option<f64>,
    /// The reason for most of the drops while the condition held, also at its end; null without drops.
    pub reason: Option<&'static str>,
    /// The limit with most of these drops; null if most have another reason.
    pub limit: Option<String>,
    /// Sources with most of these drops: up to five.
    pub sources: Vec<DroppedSource>,
    /// Seconds for which the condition has held.
    pub duration_seconds: f64,
    /// Packets dropped while it held.
    pub dropped_packets: u64,
    /// The most packets dropped per second while it held.
    pub peak_drops_per_second: f64,
    /// Percentage of the table of sources in use; null if limiter is not attached.
    pub table_percent: Option<u64>,
    /// The interface as in `status --json`; null if limiter is not attached.
    pub status: Option<Interface>,
    /// The output of `explain --no-payload`, as lines, at the beginning of a flood with `--explain`; null otherwise.
    pub explanation: Option<String>,
}

impl Event {
    /// The text for people, with the explanation behind it.
    pub fn whole_text(&self) -> String {
        match &self.explanation {
            Some(explanation) => format!("{}\n\n{}", self.text, explanation.trim_end()),
            None => self.text.clone(),
        }
    }

    /// The event of `notify --test`. Programs that act on a flood leave it alone, because it has a name of its own.
    pub fn test(interface: &str) -> Self {
        let host = own_name();
        let subject = format!("{host}: {interface}: test of limiter notify");
        Self {
            event: "test".to_owned(),
            state: "begin",
            interface: interface.to_owned(),
            time: clock::shown(SystemTime::now()),
            text: format!("{subject}: nothing has happened; next: `limiter status`"),
            subject,
            host,
            next: "limiter status".to_owned(),
            drops_per_second: None,
            reason: None,
            limit: None,
            sources: Vec::new(),
            duration_seconds: 0.0,
            dropped_packets: 0,
            peak_drops_per_second: 0.0,
            table_percent: None,
            status: None,
            explanation: None,
        }
    }
}

/// A source of a flood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DroppedSource {
    /// The source, as in `top`.
    pub source: String,
    /// Its packets that limits have dropped since the flood began. Drops before it was among the 20 busiest sources may
    /// be missing.
    pub dropped_packets: u64,
}

/// The condition and the interface that an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Name of the interface.
    pub interface: &'a str,
    /// `flood`, `table-full` or `detached`.
    pub condition: &'a str,
    /// True if the condition has begun.
    pub begins: bool,
}

impl Subject<'_> {
    /// `web1: eth0: flood begins`.
    pub fn words(&self) -> String {
        let verb = if self.begins { "begins" } else { "ends" };
        format!(
            "{}: {}: {} {verb}",
            self.host, self.interface, self.condition
        )
    }

    /// The command to type next.
    pub fn next(&self) -> String {
        let verb = match (self.condition, self.begins) {
            ("flood", true) => "top",
            ("detached", true) => "doctor",
            _ => "status",
        };
        format!("limiter {verb} {}", self.interface)
    }

    /// One line for people. `percent`: use of the table of sources.
    pub fn text(&self, course: &Course, percent: Option<u64>) -> String {
        let subject = self.words();
        let facts = match self.condition {
            "flood" => self.flood(course),
            "table-full" => format!(
                ": {} % of the table of sources in use",
                percent.unwrap_or(0)
            ),
            _ if self.begins => ": limiter is not attached, or its state cannot be read".to_owned(),
            _ => String::new(),
        };
        format!("{subject}{facts}; next: `{}`", self.next())
    }

    fn flood(&self, course: &Course) -> String {
        let (drops, peak) = (&course.drops, whole_packets(course.peak));
        let why = drops.reason().map(|reason| match drops.limit() {
            Some(limit) => format!(", {} {limit}", reason.text()),
            None => format!(", {}", reason.text()),
        });
        let sources: Vec<_> = drops
            .sources(SOURCES)
            .into_iter()
            .map(|(source, _)| source.as_str())
            .collect();
        let sources = match sources.len() {
            0 => String::new(),
            _ => format!(", most from {}", sources.join(", ")),
        };
        let why = why.unwrap_or_default();
        if self.begins {
            return format!(": {peak}/s dropped{why}{sources}");
        }
        let packets = counted(drops.packets(), "packet");
        let time = whole(course.duration().as_secs_f64());
        format!(" after {time}: {packets} dropped, up to {peak}/s{why}{sources}")
    }
}
