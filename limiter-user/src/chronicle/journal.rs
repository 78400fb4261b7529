//! Entries for the journal: one datagram to journald, or to the system's log, if one of them is there.

use std::{io, os::unix::net::UnixDatagram};

use limiter_config::escape;

use crate::observe::Entry;

/// The native socket of journald: systemd.io/JOURNAL_NATIVE_PROTOCOL.
const JOURNALD: &str = "/run/systemd/journal/socket";
/// The socket of syslog.
const SYSLOG: &str = "/dev/log";
/// The most characters of a message.
const LONGEST: usize = 2_000;

/// Sends an entry. Nobody may be there to take it.
pub fn tell(interface: &str, entry: &Entry) {
    let message = message(interface, entry);
    let sent = send(JOURNALD, fields(interface, entry, &message).as_bytes());
    if sent.is_err() {
        // Facility `daemon`, severity `notice`. Without a log, the file alone has the entry.
        let _ = send(SYSLOG, format!("<29>limiter: {message}").as_bytes());
    }
}

fn send(path: &str, bytes: &[u8]) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    // A log that takes nothing must not stop a command.
    socket.set_nonblocking(true)?;
    socket.send_to(bytes, path)
}

/// An entry in one line.
fn message(interface: &str, entry: &Entry) -> String {
    let Entry {
        event,
        user,
        command,
        details,
        ..
    } = entry;
    let details = match details.is_empty() {
        true => String::new(),
        false => format!(": {}", details.join("; ")),
    };
    let text = format!("{interface}: {event} by {user} (limiter {command}){details}");
    escape(&text, |_| false).chars().take(LONGEST).collect()
}

/// The fields of an entry. No value has a line break.
fn fields(interface: &str, entry: &Entry, message: &str) -> String {
    let values = [
        ("MESSAGE", message.to_owned()),
        ("PRIORITY", "5".to_owned()),
        ("SYSLOG_IDENTIFIER", "limiter".to_owned()),
        ("LIMITER_INTERFACE", interface.to_owned()),
        ("LIMITER_EVENT", entry.event.clone()),
        ("LIMITER_USER", entry.user.clone()),
    ];
    let values = values.into_iter();
    values
        .map(|(key, value)| format!("{key}={}\n", escape(&value, |_| false)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_no_line_break_and_messages_an_end() {
        let entry = Entry {
            time: String::new(),
            event: "ban".to_owned(),
            user: "a\nMESSAGE=b".to_owned(),
            uid: 0,
            command: "ban".to_owned(),
            details: vec!["x\u{1b}[2J".to_owned(), "é".repeat(3_000)],
            trial_until: None,
        };
        let message = message("eth0", &entry);
        assert!(message.chars().count() <= LONGEST && message.contains("eth0: ban by a"));
        let text = fields("eth0", &entry, &message);
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
