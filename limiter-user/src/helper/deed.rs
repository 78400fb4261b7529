//! The commands that the live view has carried out: three, with an interface and a source each.

use std::{
    io,
    process::{Command, Stdio},
};

use ipnet::IpNet;
use limiter_config::{escape, lists::show, names};
use serde::{Deserialize, Serialize};

/// A command about a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// The command.
    pub verb: Verb,
    /// The interface.
    pub interface: String,
    /// The source.
    pub source: IpNet,
}

/// A command that the live view knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// `ban`, for this time.
    Ban(String),
    /// `allow add`.
    Allow,
    /// `reset`.
    Reset,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Everything that it printed, on one line.
    pub text: String,
    /// True if it failed.
    pub is_error: bool,
}

impl Deed {
    /// The words of the command line behind `limiter`.
    pub fn words(&self) -> Vec<String> {
        let (interface, source) = (self.interface.clone(), show(&self.source));
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        match &self.verb {
            Verb::Ban(time) => [
                words(&["ban"]),
                vec![interface, source],
                vec!["--for".to_owned(), time.clone()],
            ]
            .concat(),
            Verb::Allow => [words(&["allow", "add"]), vec![interface, source]].concat(),
            Verb::Reset => {
                let address = self.source.addr().to_string();
                [words(&["reset"]), vec![interface, address]].concat()
            }
        }
    }

    /// Runs the command, and waits for its end. The words of a name that is none are not run.
    pub fn run(&self) -> Done {
        let refused = |text: String| Done {
            text: escape(&text, |_| false),
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
            source: "198.51.100.0/24".parse().unwrap(),
        }
    }

    #[test]
    fn deed_is_a_command_line_of_its_verb() {
        for (verb, line) in [
            (
                Verb::Ban("10m".to_owned()),
                "ban eth0 198.51.100.0/24 --for 10m",
            ),
            (Verb::Allow, "allow add eth0 198.51.100.0/24"),
            (Verb::Reset, "reset eth0 198.51.100.0"),
        ] {
            assert_eq!(deed(verb, "eth0").words().join(" "), line);
        }
    }

    #[test]
    fn deed_on_a_name_that_no_interface_can_have_is_not_run() {
        for name in ["--all", "", "a/b", "-h"] {
            let done = deed(Verb::Reset, name).run();
            assert!(done.is_error, "{name}: {done:?}");
        }
    }
}
