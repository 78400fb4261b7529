//! A log: in `status --json`, and a line of `log --json`.

use std::{net::IpAddr, time::SystemTime};

use limiter_common::abi::log::Logged;
use serde::{Deserialize, Serialize};

use limiter_kernel::{Attachment, program::log::Message};

/// Names of the levels, as aya-log numbers them from 1 on.
pub const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// The name of a level.
pub fn level_name(level: u32) -> &'static str {
    let index = usize::try_from(level.wrapping_sub(1)).ok();
    index
        .and_then(|index| LEVELS.get(index).copied())
        .unwrap_or("unknown")
}

/// The log that runs on an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Log {
    /// The level up to which messages are written: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// When it ends by itself, RFC 3339.
    pub until: String,
}

impl Log {
    /// The log that runs on the interface of this attachment.
    pub fn new(attachment: &Attachment) -> Option<Self> {
        Some(Self {
            until: attachment.log_until()?.to_owned(),
            level: level_name(attachment.record.log).to_owned(),
        })
    }
}

/// A line of `log --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogLine {
    /// When the message was read, RFC 3339: at most some 20 ms after the packet.
    pub time: String,
    /// Name of the interface.
    pub interface: String,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// Name of the event: `table_full`, `contended`, `ended`, `proven`, `answered`, `new_source`, `malformed`, `limit`, `deny`,
    /// `ban`.
    pub event: &'static str,
    /// Source address; null if it is not known. Of outgoing packets, the destination.
    pub source: Option<IpAddr>,
    /// The limit that decided; null for other events.
    pub limit: Option<String>,
    /// True if the packet passed because of shadow mode.
    pub shadow: bool,
    /// The event in words.
    pub message: &'static str,
}

impl LogLine {
    /// A message of the program; none if it is not one of this version's. `limit`: the name of the limit in a slot.
    pub fn new<'a>(
        interface: &str,
        message: &Message,
        limit: impl FnOnce(u32) -> Option<&'a str>,
    ) -> Option<Self> {
        let field = |name: &str| {
            let mut words = message.text.split(' ');
            words.find(|word| *word == name).and(words.next())
        };
        let number = |name| field(name)?.parse::<u32>().ok();
        let event = Logged::from_number(number("event")?)?;
        let slot = number("slot").filter(|_| event.is_of_limit());
        Some(Self {
            time: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            interface: interface.to_owned(),
            level: level_name(message.level),
            event: event.name(),
            source: field("source").and_then(|source| source.parse().ok()),
            limit: slot.and_then(limit).map(str::to_owned),
            shadow: number("shadow") == Some(1),
            message: event.text(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_the_program_is_read_by_its_words() {
        let message = |text: &str| Message {
            level: 4,
            text: text.to_owned(),
        };
        let limit = |slot| (slot == 3).then_some("web");
        let text = "event 5 slot 3 shadow 0 source 2001:db8::7";
        let line = LogLine::new("eth0", &message(text), limit).expect("a message");
        assert_eq!((line.level, line.event), ("debug", "new_source"));
        assert_eq!(line.source, "2001:db8::7".parse().ok());
        assert_eq!((line.limit.as_deref(), line.shadow), (Some("web"), false));
        let line = LogLine::new("eth0", &message("event 6 shadow 1"), limit).expect("a message");
        assert_eq!(
            (line.event, line.source, line.limit),
            ("malformed", None, None)
        );
        assert!(line.shadow);
        for unknown in ["", "event", "event 99 shadow 0", "slot 3"] {
            assert_eq!(LogLine::new("eth0", &message(unknown), limit), None);
        }
    }
}
