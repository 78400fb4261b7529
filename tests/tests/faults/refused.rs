//! If the kernel refuses a system call, the command reports it and has changed nothing, or it has done its work.

use limiter_tests::{
    calls::Call,
    need_kernel,
    steps::{End, Fault, Stopped},
};

use super::case::{Case, Look, Verb};

/// Errors of maps, programs, links and pins: no memory, memory limit, missing rights, full table, conflict.
const ERRORS: [i32; 5] = [
    libc::ENOMEM,
    libc::EPERM,
    libc::E2BIG,
    libc::EBUSY,
    libc::ENOSPC,
];

/// Panics unless the command has done its work, or has changed nothing and reported that.
fn done_or_said(case: &Case<'_>, stopped: &Stopped, call: &Call, look: Look) {
    let situation = format!("{:?}, {call:?}: {stopped:?}", case.command);
    let message = &stopped.stderr;
    match stopped.end {
        End::Done(0) => assert_eq!(look, case.after, "{situation}"),
        End::Done(1) => {
            // The last steps and the output can fail after the change.
            let done = call.name == "output" || message.contains("limiter is detached from");
            assert_eq!(
                look,
                if done { case.after } else { case.before },
                "{situation}"
            );
            // The message then contains the output too.
            let is_output = call.name == "output";
            assert!(is_output || message.lines().count() == 1, "{situation}");
            assert!(says_why(message, call, stopped.fault), "{situation}");
        }
        _ => panic!("{situation}"),
    }
}

/// True if the message contains the kernel's error.
fn says_why(message: &str, call: &Call, fault: Fault) -> bool {
    let Fault::Refuse(error) = fault else {
        return false;
    };
    let words = std::io::Error::from_raw_os_error(error).to_string();
    message.contains(&words)
        || (error == libc::EPERM && message.contains("not permitted: "))
        || match call.name.as_str() {
            "link" => message.contains("another XDP program has just been attached"),
            "message" => message.contains("reading the interfaces failed"),
            // The loader probes the kernel's features, and so does not always see the error.
            "types" | "program" | "map" => message.contains("the kernel refused the "),
            _ => false,
        }
}

fn refuse_at_each_step(verb: Verb) {
    verb.at_each_step(
        |step| Fault::Refuse(ERRORS[step % ERRORS.len()]),
        done_or_said,
    );
}

#[test]
fn attach_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    refuse_at_each_step(Verb::Attach);
}

#[test]
fn detach_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    refuse_at_each_step(Verb::Detach);
}

#[test]
fn change_with_a_refused_system_call_succeeds_or_reports_it() {
    need_kernel!();
    refuse_at_each_step(Verb::Change);
}
