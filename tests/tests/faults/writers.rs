//! Twenty commands at once end as if they ran one after the other: each does all of its work, or reports why not.

use std::thread;

use limiter_tests::{command::Outcome, need_kernel};

use super::case::{ABSENT, BY_OLD, Case, Place};

fn at_once(place: &Place, commands: &[Vec<String>]) -> Vec<Outcome> {
    let run = |command: &Vec<String>| {
        let arguments: Vec<_> = command.iter().map(String::as_str).collect();
        place.hosts.limiter(&arguments)
    };
    thread::scope(|scope| {
        let running: Vec<_> = commands
            .iter()
            .map(|command| scope.spawn(move || run(command)))
            .collect();
        running
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    })
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// No command may undo the change of another one.
#[test]
fn concurrent_changes_are_not_lost() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], BY_OLD, BY_OLD);
    let prefixes: Vec<_> = (0..7).map(|number| format!("10.95.{number}.1")).collect();
    let mut commands: Vec<_> = prefixes
        .iter()
        .map(|prefix| words(&format!("deny add eth0 {prefix}")))
        .collect();
    let bursts = [4, 5, 6, 7, 8];
    commands
        .extend(bursts.map(|burst| words(&format!("set eth0 --limit strangers --burst {burst}"))));
    commands.extend((0..6).map(|number| words(&format!("allow add eth0 10.94.{number}.1"))));
    commands.push(words("reset eth0 --all"));
    commands.push(words("tier add eth0 own 10.93.0.0/16"));
    assert_eq!(commands.len(), 20);
    let outcomes = at_once(&place, &commands);
    for outcome in &outcomes {
        if outcome.status != 0 {
            // The machine was very busy.
            outcome.expect(1);
            assert!(
                outcome.stderr.contains("another limiter command"),
                "{outcome:#?}"
            );
        }
    }
    assert!(
        outcomes
            .iter()
            .filter(|outcome| outcome.status == 0)
            .count()
            >= 10
    );
    let listed = |list: &str| place.hosts.limiter(&[list, "list", "eth0"]).stdout;
    let (deny, allow) = (listed("deny"), listed("allow"));
    for (command, outcome) in commands.iter().zip(&outcomes) {
        let list = match command[0].as_str() {
            "deny" => &deny,
            "allow" => &allow,
            _ => continue,
        };
        let is_on = list.lines().any(|line| line == command[3]);
        assert_eq!(is_on, outcome.status == 0, "{outcome:#?}\n{list}");
    }
    let look = case.settled("all at once");
    assert!(bursts.contains(&look[0]), "{look:?}");
    assert_eq!(&look[1..], &BY_OLD[1..]);
    case.expect_tidy("all at once");
}

/// By the reports, limiter is attached or not: that must be the real state.
#[test]
fn concurrent_attach_and_detach_match_their_reports() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], BY_OLD, ABSENT);
    let attach = || words(&format!("attach eth0 --config {}", place.old));
    let mut commands = Vec::new();
    for _ in 0..4 {
        commands.extend([words("detach eth0"), attach(), words("reload eth0")]);
        commands.extend([words("deny add eth0 10.92.0.1"), words("reset eth0 --all")]);
    }
    assert_eq!(commands.len(), 20);
    let outcomes = at_once(&place, &commands);
    let mut attached = 1;
    for (command, outcome) in commands.iter().zip(&outcomes) {
        if outcome.status != 0 {
            outcome.expect(1);
            assert_eq!(outcome.stdout, "", "{outcome:#?}");
            let why = ["already", "not attached", "another limiter command"];
            assert!(
                why.iter().any(|why| outcome.stderr.contains(why)),
                "{outcome:#?}"
            );
            continue;
        }
        if outcome.stdout.contains("unchanged") {
            continue;
        }
        attached += match command[0].as_str() {
            "attach" => 1,
            "detach" => -1,
            _ => 0,
        };
    }
    let look = case.settled("all at once");
    let is_attached = i32::from(look != ABSENT);
    assert_eq!(attached, is_attached, "{outcomes:#?}");
    case.expect_tidy("all at once");
    let next = if look == ABSENT {
        attach()
    } else {
        words("detach eth0")
    };
    at_once(&place, &[next])[0].expect(0);
    case.expect_tidy("the next one");
}
