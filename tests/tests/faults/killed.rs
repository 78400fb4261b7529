//! `kill -9` of a command, before any system call that changes something, leaves the old or the new settings.

use limiter_tests::{
    calls::Call,
    need_kernel,
    steps::{End, Fault, Stopped},
};

use crate::case::{ABSENT, BY_NEW, BY_OLD, Case, Counts, EDITED, Look, Place};

fn kill(_: usize, _: &Call) -> Fault {
    Fault::Kill
}

fn was_killed(stopped: &Stopped, call: &Call, _: Look) {
    assert_eq!(stopped.end, End::Killed(call.name.clone()));
}

/// Kills `command` at each step. `back` is the next command, which restores the settings.
fn change(place: &Place, command: &[&str], after: Look, back: &[&str]) -> Counts {
    let case = Case::new(place, command, BY_OLD, after);
    case.at_each_step(kill, was_killed, |_| place.limiter(back).expect(0))
}

fn expect_both(what: &str, counts: Counts, least: usize) {
    println!("{what}: {counts:?}");
    assert!(counts.faults >= least, "{what}: {counts:?}");
    assert!(
        counts.old > 0 && counts.new > 0,
        "{what}: no fault before, or none after the change: {counts:?}"
    );
}

#[test]
fn killed_attach_leaves_no_limits_or_all_of_them() {
    need_kernel!();
    let place = Place::new();
    let command = ["attach", "eth0", "--config", &place.old];
    let case = Case::new(&place, &command, ABSENT, BY_OLD);
    let detach = || place.limiter("detach eth0");
    let counts = case.at_each_step(kill, was_killed, |step| {
        let attached = place.hosts.pins().join("link").exists();
        // After every second step, the next command is `attach`. Otherwise it is `detach`.
        if step % 2 == 0 && !attached {
            place.attach().expect(0);
            assert_eq!(case.settled("after attach"), BY_OLD);
            case.expect_tidy("after attach");
        }
        let is_left = place.hosts.pins().exists();
        if is_left {
            detach().expect(0);
        } else {
            let again = detach();
            again.expect(0);
            assert!(again.stdout.contains("not attached"), "{again:?}");
        }
    });
    expect_both("attach", counts, 40);
}

#[test]
fn killed_detach_leaves_all_limits_or_none() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &["detach", "eth0"], BY_OLD, ABSENT);
    let counts = case.at_each_step(kill, was_killed, |step| {
        let link = place.hosts.pins().join("link");
        if step % 2 == 0 && place.hosts.pins().exists() {
            place.limiter("detach eth0").expect(0);
            case.expect_tidy("after detach");
        }
        if !link.exists() {
            place.attach().expect(0);
        }
    });
    expect_both("detach", counts, 24);
}

#[test]
fn killed_reload_leaves_the_old_or_the_new_settings() {
    need_kernel!();
    let place = Place::attached();
    let reload = |file| ["reload", "eth0", "--config", file];
    let counts = change(&place, &reload(&place.new), BY_NEW, &reload(&place.old));
    expect_both("reload", counts, 15);
}

#[test]
fn killed_list_edit_leaves_the_old_or_the_new_list() {
    need_kernel!();
    let place = Place::attached();
    let after = [BY_OLD[0], 0, BY_OLD[2]];
    let add = ["deny", "add", "eth0", EDITED];
    let counts = change(&place, &add, after, &["reload", "eth0"]);
    expect_both("deny add", counts, 15);
}

#[test]
fn killed_set_on_trial_leaves_the_old_settings_or_the_trial() {
    need_kernel!();
    let place = Place::attached();
    let command = [
        "set",
        "eth0",
        "--limit",
        "strangers",
        "--burst",
        "5",
        "--try",
        "1h",
    ];
    let back = ["set", "eth0", "--limit", "strangers", "--burst", "3"];
    let after = [5, BY_OLD[1], BY_OLD[2]];
    let counts = change(&place, &command, after, &back);
    expect_both("set --try", counts, 15);
}

/// Kills a command that ends a trial. The trial's limits hold at every step, and the next command works.
fn end_of_a_trial(command: &[&str], after: Look) -> Counts {
    let place = Place::attached();
    let set = ["set", "eth0", "--limit", "strangers", "--burst"];
    let try_again = || {
        let on_trial = [&set[..], &["5", "--try", "1h"]].concat();
        place.limiter(&[&set[..], &["3"]].concat()).expect(0);
        place.limiter(&on_trial).expect(0);
    };
    try_again();
    let case = Case::new(&place, command, [5, BY_OLD[1], BY_OLD[2]], after);
    case.at_each_step(kill, was_killed, |_| try_again())
}

#[test]
fn limits_on_trial_hold_after_a_killed_keep() {
    need_kernel!();
    let counts = end_of_a_trial(&["keep", "eth0"], [5, BY_OLD[1], BY_OLD[2]]);
    assert!(counts.faults >= 15, "{counts:?}");
}

#[test]
fn killed_revert_leaves_the_trial_or_the_old_settings() {
    need_kernel!();
    let counts = end_of_a_trial(&["keep", "eth0", "--revert"], BY_OLD);
    expect_both("keep --revert", counts, 15);
}

/// The trial of a killed command falls back in time too.
#[test]
fn killed_attach_on_trial_leaves_no_limits_or_the_trial() {
    need_kernel!();
    let place = Place::new();
    let command = ["attach", "eth0", "--config", &place.old, "--try", "1h"];
    let case = Case::new(&place, &command, ABSENT, BY_OLD);
    let counts = case.at_each_step(kill, was_killed, |_| {
        place.limiter("detach eth0").expect(0);
    });
    expect_both("attach --try", counts, 40);
}
