//! Shell completions offer the interfaces, limits and lists that exist.

use std::process::Command;

use limiter_tests::{
    command::{Outcome, binary},
    hosts::Hosts,
    need, need_kernel,
};

const FILE: &str = r#"
[lists]
partners = ["192.0.2.0/24"]
[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "100/s"
[[limit]]
name = "others"
rate = "1k/s"
"#;

/// Runs a shell on the server, with the tested command in its PATH. `words` are the arguments of the line.
fn shell(hosts: &Hosts, name: &str, script: &str, words: &[&str]) -> Vec<String> {
    let mut shell = Command::new(name);
    if name == "bash" {
        shell.args(["--norc", "--noprofile"]);
    }
    shell.args(["-c", script]);
    if name == "bash" {
        shell.arg("bash");
    }
    let path = std::env::var("PATH").unwrap();
    let folder = binary().parent().unwrap().display();
    shell.args(words).env("PATH", format!("{folder}:{path}"));
    let output = hosts.server.namespace.run(|| shell.output());
    let outcome = Outcome::of(format!("{name}: {words:?}"), output.unwrap().unwrap());
    outcome.expect(0);
    assert_eq!(outcome.stderr, "", "{outcome:#?}");
    outcome.stdout.lines().map(str::to_owned).collect()
}

/// Completes the last word in bash.
fn bash(hosts: &Hosts, words: &[&str]) -> Vec<String> {
    const COMPLETE: &str = r#"
        source <(limiter completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        eval "$(complete -p limiter | sed 's/.* -F \([^ ]*\) .*/\1/') limiter '${COMP_WORDS[COMP_CWORD]}' ''"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    shell(hosts, "bash", COMPLETE, words)
}

fn attached() -> Hosts {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limiter.toml");
    std::fs::write(&file, FILE).unwrap();
    let file = file.to_str().unwrap();
    hosts
        .limiter(&["attach", "eth0", "--config", file])
        .expect(0);
    hosts
}

#[test]
fn bash_completes_attached_interfaces_limits_and_lists() {
    need_kernel!();
    let hosts = attached();
    for (words, wanted) in [
        (&["limiter", "detach", ""][..], &["eth0"][..]),
        (
            &["limiter", "set", "eth0", "--limit", ""],
            &["dns", "others"],
        ),
        (&["limiter", "set", "eth0", "--limit", "d"], &["dns"]),
        (&["limiter", "tier", "add", "eth0", ""], &["partners"]),
        (&["limiter", "attach", "e"], &["eth0"]),
        (&["limiter", "attach", "eth0", "--mode", "na"], &["native"]),
        (&["limiter", "det"], &["detach"]),
    ] {
        let offered = bash(&hosts, words);
        let values: Vec<_> = offered
            .iter()
            .filter(|word| !word.starts_with('-'))
            .collect();
        assert_eq!(values, wanted, "{words:?}: {offered:?}");
    }
    // Interfaces without limiter are offered too.
    let offered = bash(&hosts, &["limiter", "doctor", ""]);
    assert!(offered.contains(&"lo".to_owned()), "{offered:?}");
}

#[test]
fn list_verbs_complete_and_document_all() {
    need_kernel!();
    let hosts = attached();
    for list in ["allow", "deny", "tier"] {
        for verb in ["add", "remove", "replace", "list"] {
            let offered = bash(&hosts, &["limiter", list, verb, "--a"]);
            assert_eq!(offered, ["--all"], "{list} {verb}");
            let help = hosts.limiter(&[list, verb, "--help"]).stdout;
            let explained = help.lines().any(|line| line.trim().starts_with("--all "));
            assert!(explained, "{help}");
        }
    }
}

#[test]
fn completion_without_privileges_offers_nothing_silently() {
    need_kernel!();
    let hosts = attached();
    const UNPRIVILEGED: &str = r#"
        LIMITER_COMPLETE=bash _CLAP_COMPLETE_INDEX=2 \
            setpriv --reuid=65534 --regid=65534 --clear-groups limiter -- limiter detach "$1"
    "#;
    let offered = shell(&hosts, "bash", UNPRIVILEGED, &[""]).concat();
    assert!(!offered.contains("eth0"), "{offered}");
}

#[test]
fn fish_completes_attached_interfaces_and_limits() {
    need_kernel!();
    if !need::program("fish", "fish") {
        return;
    }
    let hosts = attached();
    for (line, wanted) in [
        ("limiter detach ", "eth0"),
        ("limiter set eth0 --limit o", "others"),
    ] {
        let script = format!("limiter completions fish | source; complete --do-complete '{line}'");
        let offered = shell(&hosts, "fish", &script, &[]);
        assert!(offered.iter().any(|word| word == wanted), "{offered:?}");
    }
}

/// The script is in zsh's function path, and runs at the first completion.
#[test]
fn zsh_completes_attached_interfaces() {
    need_kernel!();
    if !need::program("zsh", "zsh") {
        return;
    }
    let hosts = attached();
    let functions = tempfile::tempdir().unwrap();
    let script = limiter_tests::command::limiter(&["completions", "zsh"]);
    std::fs::write(functions.path().join("_limiter"), script.stdout).unwrap();
    // The completion function works on the terminal's line; it is called here with the words of a line.
    let zsh = format!(
        "fpath=({} $fpath); autoload -U _limiter; compdef() {{ }}; _describe() {{ print -l -- ${{(P)@[-1]}} }}
        words=(limiter detach ''); CURRENT=3; _limiter; _limiter",
        functions.path().display()
    );
    let offered = shell(&hosts, "zsh", &zsh, &[]);
    let interfaces = offered.iter().filter(|word| *word == "eth0").count();
    assert_eq!(interfaces, 2, "{offered:?}");
}
