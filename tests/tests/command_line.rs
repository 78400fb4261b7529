//! Wrong command lines exit with the documented status and a clear message, and attach nothing.

use limiter_tests::{
    command::{Outcome, limiter, prepared},
    files::Folder,
    hosts::Hosts,
    need_kernel,
};

/// Wrong command lines, and a word that each message must contain.
const WRONG: &str = r"
attach eth0 => --rate
attach --rate 5 => IFACE
attach eth0 --rate 0 => 0
attach eth0 --rate -1 => number
attach eth0 --rate 5/x => period
attach eth0 --rate 5/0s => period
attach eth0 --rate 5/300d => period
attach eth0 --rate 10/0.5s => period
attach eth0 --rate bit => number
attach eth0 --rate 0.5x/s => not a unit
attach eth0 --rate 1e400 => unit
attach eth0 --rate 999999999999G/s => 2^63
attach eth0 --rate 2G/s => 1G/s
attach eth0 --rate 2tbit => 1tbit
attach eth0 --rate 10mb => mbit
attach eth0 --rate 5ppx => 'ppx' is not a unit
attach eth0 --rate 10mbit/m => per second
attach eth0 --rate 5 --burst 0 => 0
attach eth0 --rate 5 --burst 64kb => packets
attach eth0 --rate 10mbit --burst 2k => bytes
attach eth0 --rate 5 --key /33,/64 => key
attach eth0 --rate 5 --mode fast => native
attach eth0 --rate 5 --malformed maybe => drop
attach eth0 --rate 5 --max-sources 0 => 1
attach eth0 --rate 5 --max-sources 17M => 16777216
attach eth0 --rate 1/d --burst 1M => 208 days
attach eth0 --rate 5 --deny 192.0.2.7/24 => 192.0.2.0/24
attach eth0 --rate 5 --config x => --config
deny add eth0 host => host
attach eth0 --rate 5 --try 5 => 90s
attach eth0 --rate 5 --try 0s => 1s to 1day
attach eth0 --rate 5 --try 25h => 1s to 1day
hold => hold
attach xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx --rate 5 => 127 characters
attach a/b --rate 5 => interface
attach .. --rate 5 => interface
attach 192.0.2.1 --rate 5 => is an address
check 192.0.2.7 eth0 => is an address
deny add 192.0.2.7 => not attached to any interface
tier add eth0 own => CIDR
set eth0 --limit web => --rate
config check => FILE
attach eth0 --rate 5 --speed 6 => --speed
attach eth0 --rate 5 --rate 6 => --rate
detach => IFACE
detach eth0 --all => --all
set eth0 => --rate
set eth0 --shadow maybe => on
set eth0 --rate 5 --burst 64kb => packets
check eth0 => ADDRESS
check eth0 10.0.0.0/33 => address
reset eth0 --all 192.0.2.7 => --all
top eth0 --once -n -3 => -3
top eth0 --once -n 0 => zero
top eth0 -n 3 => --once
top eth0 --once --color never => --color
top eth0 --color red => auto
top eth0 all --once => all
top eth0 --interval 1h => 10s
agent --store redis://127.0.0.1 --interval 2001ms => 2s
export --listen 127.0.0.1: => 127.0.0.1:10546
man dance => dance
completions tcsh => bash
attack eth0 => attack
";

/// Wrong arguments that a line of text cannot contain.
const ODD: [(&[&str], &str); 5] = [
    (&["attach", "eth0", "--rate", ""], "number"),
    (&["attach", "eth0", "--rate", "5 /s"], "space"),
    (&["attach", "eth0", "--rate", "5\n"], "unit"),
    (&["attach", "", "--rate", "5"], "interface"),
    (&["attach", "eth 0", "--rate", "5"], "interface"),
];

#[test]
fn wrong_command_lines_are_refused_and_change_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    let lines = WRONG.lines().filter_map(|line| line.split_once(" => "));
    let lines = lines.map(|(line, word)| (line.split(' ').collect(), word));
    let odd = ODD.map(|(arguments, word)| (arguments.to_vec(), word));
    for (arguments, word) in lines.chain(odd) {
        let arguments: Vec<&str> = arguments;
        let outcome = hosts.limiter(&arguments);
        outcome.expect_error(2, &[word]);
        // clap's hint on values that look like flags is never useful here.
        assert!(!outcome.stderr.contains("to pass"), "{outcome:#?}");
        let first = outcome.stderr.split("\n\n").next().unwrap();
        assert!(first.len() < 250, "clear and short: {outcome:#?}");
    }
    assert_eq!(
        hosts.json(&["status", "--json"]),
        serde_json::json!({"interfaces": [], "feeds": [], "warnings": []})
    );
    let alone = hosts.limiter(&[""; 0]);
    alone.expect(2);
    assert!(alone.stderr.contains("Usage"), "{alone:#?}");
}

/// The layout is clap's, with a suggestion and the usage.
#[test]
fn control_characters_in_a_wrong_command_line_are_escaped() {
    let message = "error: unrecognized subcommand 'ad\\u{202e}d'

  tip: a similar subcommand exists: 'add'

Usage: limiter deny [OPTIONS] <COMMAND>
";
    limiter(&["deny", "ad\u{202e}d", "eth0"]).expect_error(2, &[message]);
}

#[test]
fn errors_that_depend_on_the_interface_are_failures() {
    need_kernel!();
    let hosts = Hosts::new();
    let cases = r"
attach eth0 --rate 10mbit --burst 100b => 100b | 1522
attach eth9 --rate 5 => eth9 | ip link
set eth0 --rate 5 => not attached | limiter attach eth0
check eth9 192.0.2.7 => eth9 | ip link
detach eth9 => eth9 | ip link
keep eth0 => not attached
reload eth0 => not attached
config show eth0 => not attached
deny add eth0 192.0.2.7 => not attached
status eth9 => eth9
top eth0 --once => not attached
reset eth0 --all => not attached
";
    for (line, words) in cases.lines().filter_map(|line| line.split_once(" => ")) {
        let words: Vec<_> = words.split(" | ").collect();
        hosts.limiter(line).expect_error(1, &words);
    }
}

#[test]
fn help_version_manual_and_completions_are_printed() {
    for (arguments, word) in [
        (&["--help"][..], "attach"),
        (&["attach", "--help"], "--burst"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["man"], ".TH limiter"),
        (&["man", "attach"], "max\\-sources"),
        (&["completions", "bash"], "_clap_complete_limiter"),
        (&["completions", "zsh"], "#compdef limiter"),
        (&["completions", "fish"], "--exclusive --command limiter"),
    ] {
        let outcome = limiter(arguments);
        outcome.expect(0);
        assert!(
            outcome.stdout.contains(word),
            "wanted '{word}': {outcome:#?}"
        );
        assert_eq!(outcome.stderr, "");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    use std::process::Stdio;

    let mut child = prepared(&["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn write_to_a_full_device_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = prepared(&["man"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    for word in ["standard output cannot be written", "No space left"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn agent_names_an_unreadable_password_file() {
    need_kernel!();
    let options = ["agent", "--store", "redis://127.0.0.1:1", "--password-file"];
    limiter(&[&options[..], &["/not/there"]].concat()).expect_error(
        1,
        &[
            "the password file /not/there cannot be read",
            "No such file",
        ],
    );
}

/// A message may end up in a journal.
#[test]
fn wrong_addresses_are_reported_without_their_secrets() {
    const SECRETS: [&str; 3] = ["PASSWORD", "TOKEN", "USER"];
    let run = |words: &[&str], webhook: Option<&str>| {
        let mut command = prepared(words);
        command.envs(webhook.map(|url| ("LIMITER_WEBHOOK", url)));
        Outcome::of(words.join(" "), command.output().unwrap())
    };
    let folder = Folder::new();
    let feed = |text: &str| folder.write("bad.toml", text);
    let outcomes = [
        run(&["notify"], Some("htps://USER:PASSWORD@chat.example/TOKEN")),
        run(
            &["notify"],
            Some("https://USER:PASS WORD@chat.example/TOKEN"),
        ),
        run(
            &["notify", "--webhook", "USER:PASSWORD@chat.example/TOKEN"],
            None,
        ),
        run(&["agent", "redis://USER:PASSWORD@store.example"], None),
        run(
            &["agent", "--store", "redis://USER:PASSWORD@store.example:x"],
            None,
        ),
        run(
            &["agent", "--store", "postgres://USER:PASSWORD@[::1/x"],
            None,
        ),
        run(
            &[
                "agent",
                "--stor",
                "--store=redis://USER:PASSWORD@store.example",
            ],
            None,
        ),
        run(
            &[
                "adapt",
                "eth0",
                "--probe",
                "https://USER:PASSWORD@host/?k=TOKEN",
            ],
            None,
        ),
        run(
            &["feed", &feed("list = 'htps://USER:PASSWORD@host/?k=TOKEN'")],
            None,
        ),
        run(
            &[
                "feed",
                &feed("list = 'https://USER:PASSWORD@host/?k=TOKEN'\nkeep = 'x'"),
            ],
            None,
        ),
        run(
            &[
                "feed",
                &feed("list = 'https://USER:PASSWORD@host/?k=TOKEN' keep"),
            ],
            None,
        ),
        run(
            &[
                "feed",
                &feed("crowdsec = 'ftp://USER:PASSWORD@host/?k=TOKEN'\nkey-file = '/x'"),
            ],
            None,
        ),
    ];
    for outcome in &outcomes {
        assert_ne!(outcome.status, 0, "{outcome:#?}");
        let shown = SECRETS.iter().any(|secret| {
            // Placeholders of the help stay.
            let text = outcome.stderr.replace("[USER[:PASSWORD]@]", "");
            text.contains(secret)
        });
        assert!(!shown, "{outcome:#?}");
    }
}
