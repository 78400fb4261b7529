//! If the kernel refuses a system call, the command reports it and has changed nothing, or it has done its work.

use limiter_tests::{
    calls::Call,
    need_kernel,
    steps::{End, Fault, Stopped},
};

use crate::case::{ABSENT, BY_NEW, BY_OLD, Case, Counts, EDITED, Look, Place};

/// Errors of maps, programs, links and pins: no memory, memory limit, missing rights, full table, conflict.
const ERRORS: [i32; 5] = [
    libc::ENOMEM,
    libc::EPERM,
    libc::E2BIG,
    libc::EBUSY,
    libc::ENOSPC,
];

fn refuse(step: usize, _: &Call) -> Fault {
    Fault::Refuse(ERRORS[step % ERRORS.len()])
}

/// Panics unless the command has done its work, or has changed nothing and reported that.
fn done_or_said(case: &Case<'_>, stopped: &Stopped, call: &Call, look: Look) {
    let at = format!("{:?}, {call:?}: {stopped:?}", case.command);
    let message = &stopped.stderr;
    match stopped.end {
        End::Done(0) => assert_eq!(look, case.after, "{at}"),
        End::Done(1) => {
            // The last steps and the output can fail after the change.
            let done = call.name == "output" || message.contains("limiter is detached from");
            assert_eq!(look, if done { case.after } else { case.before }, "{at}");
            // The message then contains the output too.
            let is_output = call.name == "output";
            assert!(is_output || message.lines().count() == 1, "{at}");
            assert!(says_why(message, call), "{at}");
        }
        _ => panic!("{at}"),
    }
}

/// True if the message contains the kernel's error.
fn says_why(message: &str, call: &Call) -> bool {
    let in_its_words = |error: &i32| {
        let words = std::io::Error::from_raw_os_error(*error).to_string();
        message.contains(&words)
    };
    ERRORS.iter().any(in_its_words)
        || message.contains("not permitted: ")
        || match call.name.as_str() {
            "link" => message.contains("another XDP program has just been attached"),
            "message" => message.contains("reading the interfaces failed"),
            // The loader probes the kernel's features, and so does not always see the error.
            "types" | "program" | "map" => message.contains("the kernel refused the "),
            _ => false,
        }
}

/// Makes the kernel refuse each step of `command`. `back` is the next command, which restores the settings.
fn change(place: &Place, command: &[&str], after: Look, back: &[&str]) -> Counts {
    let case = Case::new(place, command, BY_OLD, after);
    let judge = |stopped: &Stopped, call: &Call, look| done_or_said(&case, stopped, call, look);
    case.at_each_step(refuse, judge, |_| place.limiter(back).expect(0))
}

fn expect_both(what: &str, counts: Counts, least: usize) {
    println!("{what}: {counts:?}");
    assert!(counts.faults >= least, "{what}: {counts:?}");
    assert!(counts.old > 0 && counts.new > 0, "{what}: {counts:?}");
}

#[test]
fn attach_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    let place = Place::new();
    let command = ["attach", "eth0", "--config", &place.old];
    let case = Case::new(&place, &command, ABSENT, BY_OLD);
    let judge = |stopped: &Stopped, call: &Call, look| done_or_said(&case, stopped, call, look);
    let counts = case.at_each_step(refuse, judge, |_| {
        if place.hosts.pins().exists() {
            place.limiter("detach eth0").expect(0);
        }
    });
    expect_both("attach", counts, 30);
}

#[test]
fn detach_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &["detach", "eth0"], BY_OLD, ABSENT);
    let judge = |stopped: &Stopped, call: &Call, look| done_or_said(&case, stopped, call, look);
    let counts = case.at_each_step(refuse, judge, |_| {
        if !place.hosts.pins().join("link").exists() {
            place.attach().expect(0);
        }
    });
    expect_both("detach", counts, 10);
}

#[test]
fn reload_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    let place = Place::attached();
    let reload = |file| ["reload", "eth0", "--config", file];
    let counts = change(&place, &reload(&place.new), BY_NEW, &reload(&place.old));
    expect_both("reload", counts, 20);
}

#[test]
fn list_edit_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    let place = Place::attached();
    let after = [BY_OLD[0], 0, BY_OLD[2]];
    let add = ["deny", "add", "eth0", EDITED];
    let counts = change(&place, &add, after, &["reload", "eth0"]);
    expect_both("deny add", counts, 15);
}
