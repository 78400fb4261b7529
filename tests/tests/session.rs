//! A command warns before limits apply to the SSH session that it runs in.

use std::{net::IpAddr, process::Command};

use limiter_tests::{
    command::{Outcome, prepared},
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts, SERVER},
    need_kernel,
};

/// Runs `limiter` on the server, in a shell of an SSH session of `client`, or without a session. With `is_removed`,
/// only the shell has the session's variable, as with `sudo`.
fn run(hosts: &Hosts, client: Option<IpAddr>, arguments: &[&str], is_removed: bool) -> Outcome {
    let run = || {
        let limiter = prepared(arguments);
        let mut shell = Command::new("sh");
        let script = match is_removed {
            true => "env -u SSH_CONNECTION \"$@\"; exit $?",
            false => "\"$@\"; exit $?",
        };
        shell.args(["-c", script, "sh"]).arg(limiter.get_program());
        shell.args(limiter.get_args());
        for (name, value) in limiter.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        // Removes the variable of the test's own session.
        shell.env_remove("SSH_CONNECTION");
        if let Some(client) = client {
            shell.env("SSH_CONNECTION", format!("{client} 50000 {SERVER} 22"));
        }
        Outcome::of(arguments.join(" "), shell.output().unwrap())
    };
    hosts.server.namespace.run(run).unwrap()
}

fn in_session(hosts: &Hosts, client: Option<IpAddr>, arguments: &[&str]) -> Outcome {
    run(hosts, client, arguments, false)
}

/// The warning of `attach eth0 --rate 5` and more in a session of `client`. The command still attaches.
fn warning(hosts: &Hosts, client: Option<IpAddr>, more: &[&str]) -> String {
    let arguments = [&["attach", "eth0"], more].concat();
    let outcome = in_session(hosts, client, &arguments);
    outcome.expect(0);
    hosts.run("detach eth0");
    outcome.stderr
}

#[test]
fn attach_that_limits_the_ssh_session_prints_a_warning() {
    need_kernel!();
    let hosts = Hosts::new();
    let (client, rate) = (Some(CLIENT), ["--rate", "5"]);
    let warned = |more: &[&str]| warning(&hosts, client, &[&rate[..], more].concat());

    let text = warned(&[]);
    assert_eq!(text.lines().count(), 1, "{text}");
    let parts = [
        "WARNING",
        "192.0.2.2",
        "eth0",
        "'default'",
        "--allow 192.0.2.2",
        "--try 2m",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The advised option works.
    assert_eq!(warned(&["--allow", "192.0.2.2"]), "");
    let text = warned(&["--try", "2m"]);
    assert!(
        text.contains("--allow") && !text.contains("--try"),
        "{text}"
    );

    let text = warned(&["--deny", "192.0.2.2"]);
    assert!(
        text.contains("remove 192.0.2.2 from the deny list") && !text.contains("--allow"),
        "{text}"
    );
    assert_eq!(warning(&hosts, None, &rate), "", "no session, no warning");
}

/// A change that does not affect the session, or is refused, causes no warning.
#[test]
fn change_that_limits_the_ssh_session_prints_a_warning() {
    need_kernel!();
    let hosts = Hosts::new();
    let changed = |client: Option<IpAddr>, arguments: &[&str]| {
        let outcome = in_session(&hosts, client, arguments);
        outcome.expect(0);
        outcome.stderr
    };
    let session = |arguments: &[&str]| changed(Some(CLIENT), arguments);
    hosts.run("attach eth0 --rate 5 --shadow");

    assert_eq!(session(&["set", "eth0", "--rate", "6"]), "");
    let text = session(&["set", "eth0", "--shadow", "off"]);
    let advice = "`limiter allow add eth0 192.0.2.2`";
    for part in ["WARNING", "'default'", advice, "--try 2m"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = session(&["set", "eth0", "--rate", "3"]);
    assert!(text.contains("WARNING") && text.contains(advice), "{text}");
    assert_eq!(session(&["deny", "add", "eth0", "203.0.113.0/24"]), "");
    let text = session(&["deny", "add", "eth0", "192.0.2.0/24"]);
    for part in ["WARNING", "deny list", advice] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The advised command works, and undoing it causes a warning.
    assert_eq!(session(&["allow", "add", "eth0", "192.0.2.2"]), "");
    assert_eq!(session(&["deny", "remove", "eth0", "192.0.2.0/24"]), "");
    let text = session(&["allow", "remove", "eth0", "192.0.2.2"]);
    assert!(text.contains("'default'"), "{text}");
    assert_eq!(
        changed(None, &["deny", "add", "eth0", "192.0.2.0/24"]),
        "",
        "no session, no warning"
    );

    let folder = Folder::new();
    let limit = "[[limit]]\nname = \"ssh\"\nrate = \"5/s\"\n";
    let file = folder.write("limiter.toml", at_driver(limit));
    let text = session(&["reload", "eth0", "--config", &file]);
    for part in ["WARNING", "'ssh'", "allow = [\"192.0.2.2\"] under [lists]"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn ssh_session_is_known_under_sudo() {
    need_kernel!();
    let hosts = Hosts::new();
    let attach = ["attach", "eth0", "--rate", "5"];
    let outcome = run(&hosts, Some(CLIENT), &attach, true);
    outcome.expect(0);
    assert!(outcome.stderr.contains("WARNING"), "{outcome:?}");
}

#[test]
fn ban_of_the_ssh_client_prints_a_warning_unless_it_is_allowed() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 5");
    let ban = |prefix: &str| in_session(&hosts, Some(CLIENT), &["ban", "eth0", prefix]).stderr;
    for (prefix, warns) in [
        ("192.0.2.0/24", true),
        ("192.0.2.2", true),
        ("192.0.2.3", false),
        ("198.51.100.0/24", false),
    ] {
        let text = ban(prefix);
        assert_eq!(text.contains("WARNING"), warns, "{prefix}: {text}");
        let advice = format!("`limiter unban eth0 {prefix}` ends it");
        assert_eq!(text.contains(&advice), warns, "{prefix}: {text}");
        hosts.run(&format!("unban eth0 {prefix}"));
    }
    hosts.run(&format!("allow add eth0 {CLIENT}"));
    // The network also has the host's own address, which is another warning.
    let text = ban("192.0.2.0/24");
    assert!(!text.contains("your SSH session"), "{text}");
}
