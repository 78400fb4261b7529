//! Files that mean something else than under earlier builds. This warning is for one version.

use super::{Direction, Limit, Match, Settings};

impl Settings {
    /// The limits that earlier builds read in another way: before and now, and the words for the meaning of before.
    pub fn changed_meaning(&self) -> Vec<String> {
        if self.direction == Direction::In {
            return Vec::new();
        }
        self.limits
            .iter()
            .flat_map(Limit::changed_meaning)
            .collect()
    }
}

impl Limit {
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

/// Lists as the file has them.
fn shown(lists: &[String]) -> String {
    match lists {
        [list] => format!("{list:?}"),
        several => format!("{several:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::file::parse;

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
