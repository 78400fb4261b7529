//! Fuzz target for what feeds read: lists, CrowdSec's answers and configurations.

use limiter_feed::{Settings, bannable, decisions, list};

use super::message::expect_one_line;

/// Reads the bytes as each of them. Everything that would be banned may be, and lists read back.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match list(&text) {
        Ok(read) => {
            let prefixes = read.prefixes;
            assert!(!prefixes.is_empty());
            assert!(
                prefixes
                    .iter()
                    .all(|net| bannable(net).is_ok() && net.trunc() == *net)
            );
            let lines: Vec<_> = prefixes.iter().map(ToString::to_string).collect();
            let again = list(&lines.join("\n")).map(|read| (read.prefixes, read.left_out));
            assert_eq!(again, Ok((prefixes, Vec::new())));
        }
        Err(why) => expect_one_line(&why),
    }
    if let Ok(changes) = decisions(bytes) {
        let new = changes.new.iter();
        assert!(new.clone().all(|(_, time, _)| !time.is_zero()));
        let nets = new.map(|(net, ..)| net).chain(&changes.deleted);
        assert!(nets.into_iter().all(|net| bannable(net).is_ok()));
    }
    if let Ok(settings) = Settings::parse(&text) {
        assert!(!settings.source().is_empty() && !settings.interval().is_zero());
    }
}
