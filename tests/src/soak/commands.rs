//! Changes the attachment again and again: reloads, lists, limits, resets.

use std::sync::atomic::Ordering;

use super::{
    Soak,
    configurations::{CONFIGURATIONS, Configuration},
    frames::{ALLOWED, DENIED, RESET},
};
use crate::number;

/// Applies all configurations, again and again.
pub fn run(soak: &Soak<'_>) {
    let mut memory = [None; CONFIGURATIONS.len()];
    let mut now = &CONFIGURATIONS[0];
    for round in 1.. {
        for (next, memory) in CONFIGURATIONS.iter().zip(&mut memory) {
            if !soak.goes_on() {
                return;
            }
            touch(soak, now, round);
            deny_through(soak, next);
            now = next;
            let used = number(&soak.hosts.status()["sources"]["memory_bytes"]);
            let first = *memory.get_or_insert(used);
            assert_eq!(used, first, "memory of the maps under '{}'", next.name);
            wrong(soak);
        }
    }
}

fn run_line(soak: &Soak<'_>, what: &'static str, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    soak.limiter(what, &words);
    soak.sleep(soak.plan.pause);
}

/// Changes the current configuration, and undoes most changes.
fn touch(soak: &Soak<'_>, now: &Configuration, round: u32) {
    let run = |what, line: String| run_line(soak, what, &line);
    run("allow", format!("allow add eth0 {ALLOWED}"));
    let number = 1_000 + round % 7 * 300;
    run("set", format!("set eth0 --new-sources {number}"));
    if let Some(other) = now.other {
        let rate = 40 + round % 5;
        let set = format!("set eth0 --limit {other}");
        run("set", format!("{set} --rate {rate}/s"));
        run("set", format!("{set} --shadow on"));
    }
    // The command reports it if the source is not in the table, or its entry is in use.
    let outcome = soak.ask(&["reset", "eth0", &RESET.to_string()]);
    let not_there = outcome.status == 1 && outcome.stderr.contains("not in the table");
    assert!(outcome.status == 0 || not_there, "{outcome:#?}");
    soak.count("reset");
    run("allow", format!("allow remove eth0 {ALLOWED}"));
    let malformed = ["drop", "pass"][round as usize % 2];
    run("set", format!("set eth0 --malformed {malformed}"));
}

/// Denies a source, applies the next configuration, which denies it too, and undoes that. No packet of the source may
/// pass meanwhile.
fn deny_through(soak: &Soak<'_>, next: &Configuration) {
    let come_by_now = || {
        soak.arrivals.settle(soak.hosts);
        soak.arrivals.from(DENIED.into())
    };
    run_line(soak, "deny", &format!("deny add eth0 {DENIED}"));
    let come = come_by_now();
    let file = soak.folder.write("limiter.toml", next.text());
    soak.reloads.fetch_add(1, Ordering::SeqCst);
    run_line(soak, "reload", &format!("reload eth0 --config {file}"));
    soak.reloads.fetch_add(1, Ordering::SeqCst);
    run_line(soak, "deny", "deny list eth0");
    assert_eq!(
        come_by_now(),
        come,
        "{DENIED} was denied all the time, while '{}' was put in force",
        next.name
    );
    run_line(soak, "deny", &format!("deny remove eth0 {DENIED}"));
    soak.count("check of a denied source");
}

/// Runs a command that must fail and change nothing.
fn wrong(soak: &Soak<'_>) {
    let wrong = soak.folder.write("wrong.toml", "nothing = 1");
    soak.ask(&["reload", "eth0", "--config", &wrong]).expect(1);
    soak.count("reload of a wrong file");
}
