//! Fuzz target for what feeds read: lists, CrowdSec's answers and configurations.

use std::time::Duration;

use limiter_feed::{Options, Settings, bannable, decisions, list};

use super::message::expect_one_line;

/// Reads the bytes as each of them. Everything that would be banned may be, and lists read back.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let options = Options {
        format: None,
        fields: Vec::new(),
        max_size: 1 << 20,
    };
    match list(bytes, &options, Duration::ZERO) {
        Ok(read) => {
            let prefixes: Vec<_> = read.prefixes.into_keys().collect();
            assert!(
                prefixes
                    .iter()
                    .all(|net| bannable(net).is_ok() && net.trunc() == *net)
            );
            let lines: String = prefixes.iter().map(|net| format!("{net}\n")).collect();
            if let Ok(again) = list(lines.as_bytes(), &options, Duration::ZERO) {
                assert_eq!(again.left_out, []);
                assert!(again.prefixes.into_keys().eq(prefixes));
            } else {
                assert!(prefixes.is_empty());
            }
        }
        Err(why) => expect_one_line(&why),
    }
    if let Ok(changes) = decisions(bytes) {
        let new = changes.new.iter();
        assert!(new.clone().all(|decided| !decided.time.is_zero()));
        let nets = new.map(|decided| &decided.prefix).chain(&changes.deleted);
        assert!(nets.into_iter().all(|net| bannable(net).is_ok()));
    }
    if let Ok(settings) = Settings::parse(&text) {
        assert!(!settings.source().is_empty() && !settings.interval().is_zero());
    }
}
