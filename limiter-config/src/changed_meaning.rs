//! Files that mean something else than under earlier builds. This warning is for one version.

use super::{
    Algorithm, Destination, Direction, Limit, Match, Settings, Unit,
    control::{CONTROL_LIMIT, CONTROL_TOTAL},
};

impl Settings {
    /// The limits that earlier builds read in another way: before and now, and the words for the meaning of before.
    pub fn changed_meaning(&self) -> Vec<String> {
        let limits = self.all_limits();
        let bursts = limits.iter().filter_map(|limit| self.changed_burst(limit));
        let mut warnings: Vec<_> = bursts.collect();
        if self.direction == Direction::Out {
            warnings.extend(self.limits.iter().flat_map(Limit::changed_meaning));
        }
        warnings
    }

    /// Earlier builds took the packets of one second, of control traffic those of two, for a burst that is not written.
    fn changed_burst(&self, limit: &Limit) -> Option<String> {
        let Limit { name, rate, .. } = limit;
        let (written, seconds) = match name.as_str() {
            CONTROL_LIMIT => (self.control.burst, 2),
            _ => (limit.burst, 1),
        };
        if written.is_some() || rate.unit == Unit::Bytes || limit.has_windows() {
            return None;
        }
        let before = rate.tokens_in(seconds * 1_000_000_000).max(1);
        let now = limit.burst(0).ok()?.tokens;
        let advice = match name.as_str() {
            CONTROL_TOTAL => "write a rate per second".to_owned(),
            _ => format!("write a burst of {before}"),
        };
        (before != now).then(|| {
            format!(
                "limit '{name}': without a burst, {rate} now means up to {now} packets at once, the amount of the period. In earlier builds of limiter, it meant {before}: to keep that, {advice}"
            )
        })
    }
}

impl Limit {
    /// Returns true if a bucket is refilled at the start of each period.
    fn has_windows(&self) -> bool {
        self.algorithm == Algorithm::FixedWindow
    }

    /// Earlier builds took `source` and `unless` of packets that the interface sends for lists of destinations.
    fn changed_meaning(&self) -> Vec<String> {
        let Self { name, matches, .. } = self;
        let is_free = matches.not.is_none();
        let no_words = || "the meaning of before cannot be written".to_owned();
        let write = |text: String| format!("for the meaning of before, write {text}");
        let in_match = |matches: &Match, [source, unless]: [String; 2]| {
            let lists = [
                ("source", &matches.source, source),
                ("unless", &matches.unless, unless),
            ];
            let lists = lists.into_iter().filter(|(_, lists, _)| !lists.is_empty());
            let warnings = lists.map(|(key, _, advice)| {
                format!(
                    "limit '{name}': {key} compares lists with the packet's source. Before, with direction = \"out\", it compared them with the destination: {advice}"
                )
            });
            warnings.collect::<Vec<_>>()
        };
        let destination = |lists| format!("destination = {}", shown(lists));
        let mut warnings = in_match(
            matches,
            [
                match matches.destination[..] {
                    [] => write(destination(&matches.source)),
                    _ => no_words(),
                },
                match is_free {
                    true => write(format!("not = {{ {} }}", destination(&matches.unless))),
                    false => no_words(),
                },
            ],
        );
        if let Some(not) = &matches.not {
            let source = match not.destination[..] {
                [] => write(format!("in not {}", destination(&not.source))),
                _ => no_words(),
            };
            warnings.extend(in_match(not, [source, no_words()]));
        }
        warnings
    }
}

/// Prefixes and lists as the file has them.
fn shown(places: &[Destination]) -> String {
    let places: Vec<_> = places.iter().map(ToString::to_string).collect();
    match &places[..] {
        [place] => format!("{place:?}"),
        several => format!("{several:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::file::parse;

    #[test]
    fn default_bursts_of_long_periods_say_what_they_were_before() {
        let cases = r#"
rate = '6/30s' => limit 'a': without a burst, 6/30s now means up to 6 packets at once, the amount of the period. In earlier builds of limiter, it meant 1: to keep that, write a burst of 1
rate = '100k/d' => means up to 100000 packets at once | it meant 1: | write a burst of 1
rate = '300/m' => means up to 300 packets at once | it meant 5: | write a burst of 5
rate = '300/m'\nburst = 9 =>
rate = '300/m'\nalgorithm = 'fixed-window' =>
rate = '300/s' =>
rate = '1/d' =>
rate = '10mbit' =>
rate = 5\n[control]\nrate = '600/m' => limit 'control': without | up to 600 packets | it meant 20: | write a burst of 20
rate = 5\n[control]\nrate = '100/s'\ntotal = '1M/m' => limit 'control-total': without | it meant 16666: to keep that, write a rate per second
rate = 5\n[control]\nrate = '4/2s'\nburst = 9 =>
"#;
        for case in cases.lines().filter(|case| !case.is_empty()) {
            let (limit, expected) = case.split_once(" =>").unwrap();
            let limit = limit.replace("\\n", "\n");
            let text = format!("exempt = 'control'\n[[limit]]\nname = 'a'\n{limit}\n");
            let warnings = parse(&text, Path::new("."))
                .unwrap()
                .settings
                .changed_meaning();
            let expected = expected.trim();
            assert_eq!(
                warnings.len(),
                usize::from(!expected.is_empty()),
                "{case}: {warnings:?}"
            );
            for part in expected.split(" | ").filter(|part| !part.is_empty()) {
                assert!(warnings[0].contains(part), "{case}: {warnings:?}");
            }
        }
    }

    #[test]
    fn outgoing_limits_on_sources_say_what_they_meant_before() {
        let warnings = |direction: &str, fields: &str| {
            let text = format!(
                "direction = \"{direction}\"\n[[limit]]\nname = \"a\"\nrate = 5\nmatch = {{ {fields} }}\n[lists]\nx = []\ny = []\n"
            );
            let file = parse(&text, Path::new(".")).unwrap();
            file.settings.changed_meaning()
        };
        for (fields, advice) in [
            ("source = \"x\"", "write destination = \"x\""),
            (
                "source = [\"x\", \"y\"]",
                "write destination = [\"x\", \"y\"]",
            ),
            ("unless = \"x\"", "write not = { destination = \"x\" }"),
            (
                "not = { source = \"x\" }",
                "write in not destination = \"x\"",
            ),
            ("not = { unless = \"x\" }", "cannot be written"),
            ("source = \"x\", destination = \"y\"", "cannot be written"),
        ] {
            let found = warnings("out", fields);
            assert_eq!(found.len(), 1, "{fields}: {found:?}");
            assert!(found[0].ends_with(advice), "{found:?}");
            assert_eq!(warnings("in", fields), [""; 0]);
        }
        assert_eq!(
            warnings("out", "unless = \"x\", not = { ttl = 1 }").len(),
            1
        );
        assert_eq!(warnings("out", "destination = \"x\""), [""; 0]);
    }
}
