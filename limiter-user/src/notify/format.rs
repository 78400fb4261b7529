//! Bodies of events for chats, pushes and mails.

use std::{fmt, time::SystemTime};

use clap::ValueEnum;
use serde_json::json;

use super::event::Event;

/// The form in which an event is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// All fields of the event, as JSON
    #[default]
    Json,
    /// For webhooks of Slack, Mattermost and Rocket.Chat
    Slack,
    /// For webhooks of Discord
    Discord,
    /// For generic webhooks of Matrix Hookshot
    Matrix,
    /// For a topic of ntfy: text, with title, priority and tags
    Ntfy,
    /// A mail with subject and text, without From and To, for --exec
    Mail,
}

/// The most characters of a message of Discord.
const DISCORD: usize = 2_000;

/// The delivered body, its type, and further headers of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The body.
    pub text: String,
    /// The type of the body.
    pub content_type: &'static str,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

impl fmt::Display for Body {
    /// Headers and text of a request, as `notify --test` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Content-Type: {}", self.content_type)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        f.write_str(self.text.trim_end())
    }
}

impl Format {
    /// Writes an event in this form. Returns the errors of the library that writes JSON.
    pub fn body(self, event: &Event) -> serde_json::Result<Body> {
        let text = &event.whole_text();
        let json = match self {
            Self::Json => serde_json::to_string(event)?,
            // These would begin links and mentions.
            Self::Slack => {
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                json!({ "text": text.replace('>', "&gt;") }).to_string()
            }
            Self::Discord => {
                let text: String = text.chars().take(DISCORD).collect();
                json!({ "content": text, "allowed_mentions": { "parse": [] } }).to_string()
            }
            Self::Matrix => json!({ "text": text }).to_string(),
            Self::Ntfy => return Ok(ntfy(event)),
            Self::Mail => return Ok(mail(event)),
        };
        Ok(Body {
            text: json,
            content_type: "application/json",
            headers: Vec::new(),
        })
    }
}

fn ntfy(event: &Event) -> Body {
    let (priority, tag) = match event.state {
        "begin" => ("high", "rotating_light"),
        _ => ("default", "white_check_mark"),
    };
    let headers = [
        ("Title", header(&event.subject)),
        ("Priority", priority.to_owned()),
        ("Tags", tag.to_owned()),
    ];
    Body {
        text: event.whole_text(),
        content_type: "text/plain; charset=utf-8",
        headers: headers.into(),
    }
}

fn mail(event: &Event) -> Body {
    let subject = header(&event.subject);
    let date = humantime::parse_rfc3339(&event.time).unwrap_or_else(|_| SystemTime::now());
    let date = httpdate::fmt_http_date(date).replace("GMT", "+0000");
    let text = event.whole_text().replace('\n', "\r\n");
    Body {
        text: format!(
            "Subject: {subject}\r\nDate: {date}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
        ),
        content_type: "message/rfc822",
        headers: Vec::new(),
    }
}

/// A value of a header: printable ASCII. Names of hosts and interfaces have nothing else but by intent.
fn header(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    text.chars()
        .map(|c| if is_plain(c) { c } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event {
            event: "flood".to_owned(),
            state: "begin",
            host: "web1".to_owned(),
            interface: "eth0".to_owned(),
            time: "2026-11-26T13:00:10Z".to_owned(),
            subject: "web1: eth\n0: flood begins".to_owned(),
            text: "a <b> & 192.0.2.7 -> 192.0.2.10".to_owned(),
            next: "limiter top eth0".to_owned(),
            drops_per_second: None,
            reason: None,
            limit: None,
            sources: Vec::new(),
            duration_seconds: 10.0,
            dropped_packets: 0,
            peak_drops_per_second: 0.0,
            table_percent: None,
            status: None,
            explanation: None,
        }
    }

    #[test]
    fn bodies_have_the_form_of_their_receiver() {
        let body = |format: Format| format.body(&event()).unwrap();
        assert_eq!(
            body(Format::Slack).text,
            r#"{"text":"a &lt;b&gt; &amp; 192.0.2.7 -&gt; 192.0.2.10"}"#
        );
        let text = "a <b> & 192.0.2.7 -> 192.0.2.10";
        assert_eq!(
            body(Format::Matrix).text,
            json!({ "text": text }).to_string()
        );
        let discord: serde_json::Value = serde_json::from_str(&body(Format::Discord).text).unwrap();
        assert_eq!(discord["content"], text);
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
        let ntfy = body(Format::Ntfy);
        assert_eq!(
            (&*ntfy.text, ntfy.content_type),
            (text, "text/plain; charset=utf-8")
        );
        assert_eq!(
            ntfy.headers[0],
            ("Title", "web1: eth?0: flood begins".to_owned())
        );
        assert_eq!(
            body(Format::Mail).text,
            format!(
                "Subject: web1: eth?0: flood begins\r\nDate: Thu, 26 Nov 2026 13:00:10 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
            )
        );
        let long = Event {
            text: "x".repeat(3_000),
            ..event()
        };
        let discord = Format::Discord.body(&long).unwrap().text;
        assert!(discord.len() < DISCORD + 100, "{}", discord.len());
    }
}
