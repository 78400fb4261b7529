//! The commands that the live view and `notify` have carried out: three about a source, and two about all packets.

use std::{
    io,
    process::{Command, Stdio},
};

use ipnet::IpNet;
use limiter_config::{escape, lists::show, names};
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// The command.
    pub verb: Verb,
    /// The interface.
    pub interface: String,
}

/// A command, with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// `ban`, for this time.
    Ban(IpNet, String),
    /// `allow add`.
    Allow(IpNet),
    /// `reset`.
    Reset(IpNet),
    /// `watch --by`.
    Senders,
    /// `explain`; with `true`, without bytes of the payload.
    Explain(bool),
}

/// The words that count who sends. The interface follows.
const SENDERS: [&str; 7] = [
    "watch",
    "--by",
    "source,port,protocol",
    "--for",
    "5s",
    "--rows",
    "200",
];

/// The words that explain a flood, and the one that leaves out the payload. The interface follows.
const EXPLAIN: [&str; 3] = ["explain", "--for", "10s"];
const NO_PAYLOAD: &str = "--no-payload";

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Everything that it printed, on one line; the lines of a table or an explanation, without notes.
    pub text: String,
    /// True if the text has such lines.
    pub is_table: bool,
    /// True if it failed.
    pub is_error: bool,
}

impl Deed {
    /// The words of the command line behind `limiter`.
    pub fn words(&self) -> Vec<String> {
        let interface = self.interface.as_str();
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        match &self.verb {
            Verb::Ban(source, time) => words(&["ban", interface, &show(source), "--for", time]),
            Verb::Allow(source) => words(&["allow", "add", interface, &show(source)]),
            Verb::Reset(source) => words(&["reset", interface, &source.addr().to_string()]),
            Verb::Senders => {
                let count = [SENDERS.as_slice(), &[interface]].concat();
                words(&count)
            }
            Verb::Explain(without_payload) => {
                let option: &[&str] = if *without_payload { &[NO_PAYLOAD] } else { &[] };
                words(&[EXPLAIN.as_slice(), option, &[interface]].concat())
            }
        }
    }

    /// Runs the command, and waits for its end. The words of a name that is none are not run.
    pub fn run(&self) -> Done {
        let refused = |text: String| Done {
            text: escape(&text, |_| false),
            is_table: false,
            is_error: true,
        };
        if let Err(error) = names::interface(&self.interface) {
            return refused(error.to_string());
        }
        // Interfaces may have such names. As words of a command line, they are options.
        if self.interface.starts_with('-') {
            return refused(format!("'{}' looks like an option", self.interface));
        }
        match self.output() {
            Ok(output) if self.has_lines() && output.status.success() => Done {
                text: escape(&String::from_utf8_lossy(&output.stdout), |c| c == '\n'),
                is_table: true,
                is_error: false,
            },
            Ok(output) => {
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8_lossy(&printed);
                let lines = printed.lines();
                let lines: Vec<_> = lines
                    .map(|line| line.strip_prefix("limiter: ").unwrap_or(line))
                    .collect();
                Done {
                    is_error: !output.status.success(),
                    ..refused(lines.join("; "))
                }
            }
            Err(error) => refused(format!("limiter cannot be started: {error}")),
        }
    }

    /// True if what the command prints is not for one line.
    fn has_lines(&self) -> bool {
        matches!(self.verb, Verb::Senders | Verb::Explain(_))
    }

    fn output(&self) -> io::Result<std::process::Output> {
        // The file of this program, even if another version has replaced it meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.args(self.words()).stdin(Stdio::null()).output()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(verb: Verb, interface: &str) -> Deed {
        Deed {
            verb,
            interface: interface.to_owned(),
        }
    }

    #[test]
    fn deed_is_a_command_line_of_its_verb() {
        let source: IpNet = "198.51.100.0/24".parse().unwrap();
        for (verb, line) in [
            (
                Verb::Ban(source, "10m".to_owned()),
                "ban eth0 198.51.100.0/24 --for 10m",
            ),
            (Verb::Allow(source), "allow add eth0 198.51.100.0/24"),
            (Verb::Reset(source), "reset eth0 198.51.100.0"),
            (
                Verb::Senders,
                "watch --by source,port,protocol --for 5s --rows 200 eth0",
            ),
            (Verb::Explain(false), "explain --for 10s eth0"),
            (Verb::Explain(true), "explain --for 10s --no-payload eth0"),
        ] {
            assert_eq!(deed(verb, "eth0").words().join(" "), line);
        }
    }

    #[test]
    fn deed_on_a_name_that_no_interface_can_have_is_not_run() {
        for name in ["--all", "", "a/b", "-h"] {
            let done = deed(Verb::Senders, name).run();
            assert!(done.is_error, "{name}: {done:?}");
        }
    }
}
