//! The EXAMPLES of each page. A test reads each as a command line.

/// What is to be done, and how.
type Example = (&'static str, &'static str);

/// The examples of a verb; of the command as a whole, those to begin with.
pub fn of(verb: &str) -> &'static [Example] {
    let of = EXAMPLES.iter().find(|(name, _)| *name == verb);
    of.map_or(&[], |(_, examples)| examples)
}

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "limiter",
        &[
            (
                "Count what a limit would drop, and drop nothing:",
                "limiter attach eth0 --rate 1k/s --shadow",
            ),
            (
                "See what it would do, and to whom:",
                "limiter status eth0\nlimiter top eth0",
            ),
            ("Drop from now on:", "limiter set eth0 --shadow off"),
            ("Leave nothing behind:", "limiter detach eth0"),
        ],
    ),
    (
        "attach",
        &[
            (
                "Count what a limit would drop, and drop nothing:",
                "limiter attach eth0 --rate 1k/s --burst 2k --shadow",
            ),
            (
                "Limit for two minutes, then undo it unless `limiter keep eth0` is said:",
                "limiter attach eth0 --rate 1k/s --exempt established,control --try 2m",
            ),
            (
                "By a configuration file, on the interfaces that it names:",
                "limiter attach --config /etc/limiter/limiter.toml",
            ),
        ],
    ),
    (
        "keep",
        &[
            ("Make a trial last:", "limiter keep eth0"),
            (
                "Go back to what was before it, now:",
                "limiter keep eth0 --revert",
            ),
        ],
    ),
    (
        "detach",
        &[
            ("Stop limiting one interface:", "limiter detach eth0"),
            ("Stop limiting all:", "limiter detach --all"),
        ],
    ),
    (
        "status",
        &[
            ("All attachments:", "limiter status"),
            ("One, for a program:", "limiter status eth0 --json"),
        ],
    ),
    (
        "set",
        &[
            (
                "Change the only limit:",
                "limiter set eth0 --rate 500/s --burst 1k",
            ),
            (
                "Change one of several:",
                "limiter set eth0 --limit dns --rate 100/s",
            ),
            ("Drop nothing for now:", "limiter set eth0 --shadow on"),
            (
                "Halve each rate for two minutes, unless `limiter keep eth0` is said:",
                "limiter set eth0 --rate x0.5 --try 2m",
            ),
        ],
    ),
    (
        "reload",
        &[
            (
                "Put the file in force again that was attached:",
                "limiter reload eth0",
            ),
            (
                "Put another one in force:",
                "limiter reload eth0 --config /etc/limiter/eth0.toml",
            ),
        ],
    ),
    (
        "allow",
        &[
            (
                "Let a network pass before any limit:",
                "limiter allow add eth0 192.0.2.0/24",
            ),
            ("See who passes:", "limiter allow list eth0"),
        ],
    ),
    (
        "deny",
        &[
            (
                "Drop a source before any limit:",
                "limiter deny add eth0 203.0.113.66",
            ),
            (
                "On a list that a fleet shares, for ten minutes:",
                "limiter deny add eth0 203.0.113.66 --for 10m",
            ),
            (
                "Replace the whole list by a file, a prefix a line:",
                "limiter deny replace eth0 --file blocklist.txt",
            ),
        ],
    ),
    (
        "tier",
        &[
            (
                "Put a network on the list `partners`, which limits match on:",
                "limiter tier add eth0 partners 192.0.2.0/24",
            ),
            ("See what is on it:", "limiter tier list eth0 partners"),
        ],
    ),
    (
        "config",
        &[
            (
                "Find everything that is wrong with a file:",
                "limiter config check /etc/limiter/limiter.toml",
            ),
            (
                "Print what is in force, as a file:",
                "limiter config show eth0",
            ),
        ],
    ),
    (
        "check",
        &[(
            "Why is this source dropped?",
            "limiter check eth0 203.0.113.66",
        )],
    ),
    (
        "reset",
        &[
            (
                "Fill the buckets of a source:",
                "limiter reset eth0 203.0.113.66",
            ),
            ("Of all sources:", "limiter reset eth0 --all"),
        ],
    ),
    (
        "top",
        &[
            (
                "Watch who is sending and who is dropped:",
                "limiter top eth0",
            ),
            (
                "The ten busiest, for a program:",
                "limiter top eth0 --once -n 10 --json",
            ),
        ],
    ),
    (
        "watch",
        &[
            ("Show drops as they happen:", "limiter watch eth0"),
            (
                "Ten of one network, for one reason:",
                "limiter watch eth0 --source 203.0.113.0/24 --reason limit --count 10",
            ),
        ],
    ),
    (
        "log",
        &[("Print each decision, for debugging:", "limiter log eth0")],
    ),
    (
        "export",
        &[
            (
                "Serve metrics and a page on this machine:",
                "limiter export",
            ),
            ("To others too:", "limiter export --listen 192.0.2.1:10546"),
        ],
    ),
    (
        "replay",
        &[
            (
                "Who would have been dropped in a capture:",
                "limiter replay traffic.pcap --config limiter.toml",
            ),
            (
                "By a limit of the command line:",
                "limiter replay traffic.pcap --rate 100/s",
            ),
        ],
    ),
    (
        "learn",
        &[
            (
                "Propose limits that nearly all sources would not notice:",
                "limiter learn eth0 --for 10m --output proposed.toml",
            ),
            (
                "From a capture:",
                "limiter learn --capture traffic.pcap --output proposed.toml",
            ),
        ],
    ),
    (
        "doctor",
        &[("What would go wrong with `attach`:", "limiter doctor eth0")],
    ),
    (
        "agent",
        &[(
            "Share the limits of scope `fleet` through a store:",
            "limiter agent --store rediss://valkey.example:6379 --password-file /etc/limiter/password",
        )],
    ),
    (
        "demo",
        &[(
            "A flood between two hosts in network namespaces:",
            "limiter demo --for 10s",
        )],
    ),
    (
        "completions",
        &[("Complete in this shell:", "limiter completions bash")],
    ),
    (
        "man",
        &[
            (
                "Read the page of a verb, where pages are not installed:",
                "limiter man attach",
            ),
            ("Write all pages:", "limiter man --folder ."),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{EXAMPLES, of};
    use crate::cli::args::Cli;

    #[test]
    fn every_verb_has_examples() {
        for verb in Cli::command().get_subcommands() {
            assert!(!of(verb.get_name()).is_empty(), "{}", verb.get_name());
        }
    }

    #[test]
    fn every_example_is_a_command_line() {
        for (verb, examples) in EXAMPLES {
            for line in examples.iter().flat_map(|(_, lines)| lines.lines()) {
                let read = Cli::try_parse_from(line.split(' '));
                assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
                let is_of_verb = *verb == "limiter" || line.split(' ').nth(1) == Some(*verb);
                assert!(is_of_verb, "{line}: no example of {verb}");
            }
        }
    }
}
