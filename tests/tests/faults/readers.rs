//! Who only reads takes no lock: another command may be done between any two of the pins that a reader opens.

use limiter_tests::{
    command::prepared,
    need_kernel,
    steps::{End, Stopped, run_meanwhile},
};

use crate::case::Place;

/// Runs `command` once for each pin that it opens, and `meanwhile` just before it opens that. Returns how many pins.
fn at_each_opening(
    command: &[&str],
    meanwhile: impl Fn(&Place) + Sync,
    judge: impl Fn(&Stopped),
) -> usize {
    const MOST: usize = 100;
    let place = Place::attached();
    for opening in 0..MOST {
        let run = || run_meanwhile(&mut prepared(command), opening, || meanwhile(&place));
        let stopped = place.hosts.server.namespace.run(run).unwrap();
        let (stopped, was_opened) = stopped.unwrap();
        if !was_opened {
            assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
            return opening;
        }
        judge(&stopped);
        if !place.hosts.pins().exists() {
            place.attach().expect(0);
        }
    }
    panic!("more than {MOST} pins");
}

/// What was there is read, or it is said that nothing is there; no wreck is seen.
#[test]
fn detached_meanwhile() {
    need_kernel!();
    let detach = |place: &Place| place.limiter(&["detach", "eth0"]).expect(0);
    let openings = at_each_opening(&["reset", "eth0", "--all"], detach, |stopped| {
        let said = &stopped.stderr;
        let is_off = said.contains("not attached to 'eth0'") && said.lines().count() == 1;
        assert!(stopped.end == End::Done(0) || is_off, "{stopped:?}");
    });
    assert!(openings >= 15, "{openings}");
    // As the exporter does it.
    let openings = at_each_opening(&["status"], detach, |stopped| {
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
        assert_eq!(stopped.stderr, "", "{stopped:?}");
    });
    assert!(openings >= 15, "{openings}");
}

/// At no moment that a reader sees there is nothing.
#[test]
fn detached_and_attached_meanwhile() {
    need_kernel!();
    let anew = |place: &Place| {
        place.limiter(&["detach", "eth0"]).expect(0);
        place.attach().expect(0);
    };
    let openings = at_each_opening(&["check", "eth0", "192.0.2.2"], anew, |stopped| {
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    });
    assert!(openings >= 15, "{openings}");
}
