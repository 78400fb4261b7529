//! The output of `log`: one line per message.

use crate::observe::log::LogLine;

/// Formats one message.
pub fn line(line: &LogLine) -> String {
    let source = line.source.map(|source| format!(", source {source}"));
    let limit = line.limit.as_ref().map(|limit| format!(", limit {limit}"));
    let shadow = line.shadow.then_some(", passed in shadow");
    format!(
        "{} {:<5} {}{}{}{}\n",
        line.time,
        line.level.to_uppercase(),
        line.message,
        source.unwrap_or_default(),
        limit.unwrap_or_default(),
        shadow.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_level_event_source_and_limit() {
        let whole = LogLine {
            time: "T".to_owned(),
            interface: "eth0".to_owned(),
            level: "warn",
            event: "contended",
            source: "192.0.2.7".parse().ok(),
            limit: Some("web".to_owned()),
            shadow: true,
            message: "contended",
        };
        assert_eq!(
            line(&whole),
            "T WARN  contended, source 192.0.2.7, limit web, passed in shadow\n"
        );
        let short = LogLine {
            source: None,
            limit: None,
            shadow: false,
            ..whole
        };
        assert_eq!(line(&short), "T WARN  contended\n");
    }
}
