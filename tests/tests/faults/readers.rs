//! Readers, which take no lock, see a whole state even if another command completes between two of their reads.

use limiter_tests::{
    command::prepared,
    effort::repetitions,
    need_kernel,
    steps::{End, Stopped, run_meanwhile},
};

use super::case::Place;

/// Number of reads in which a reader looks for the attachment. All of these are tried. Of the many equal reads of maps,
/// one in so many is tried, usually and with `--thorough`.
const FIRST: usize = 8;
const EACH: [usize; 2] = [6, 3];

/// Runs `command` repeatedly, and calls `meanwhile` before another one of its reads each time. Returns the number of
/// reads.
fn at_each_look(
    command: &[&str],
    meanwhile: impl Fn(&Place) + Sync,
    judge: impl Fn(&Stopped),
) -> usize {
    const MOST: usize = 200;
    let place = Place::attached();
    let [usual, thorough] = EACH;
    let each = repetitions(usual, thorough);
    for look in (0..FIRST).chain((FIRST..MOST).step_by(each)) {
        let run = || run_meanwhile(&mut prepared(command), look, || meanwhile(&place));
        let stopped = place.hosts.server.namespace.run(run).unwrap();
        let (stopped, was_there) = stopped.unwrap();
        if !was_there {
            assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
            return look;
        }
        judge(&stopped);
        if !place.hosts.pins().exists() {
            place.attach().expect(0);
        }
    }
    panic!("more than {MOST} reads");
}

/// The reader shows the old state, or reports that nothing is attached.
#[test]
fn reader_sees_whole_states_during_a_detach() {
    need_kernel!();
    let detach = |place: &Place| place.limiter("detach eth0").expect(0);
    let looks = at_each_look(&["reset", "eth0", "--all"], detach, |stopped| {
        let text = &stopped.stderr;
        let is_off = text.contains("not attached to 'eth0'") && text.lines().count() == 1;
        assert!(stopped.end == End::Done(0) || is_off, "{stopped:?}");
    });
    assert!(looks >= 25, "{looks}");
    // The exporter reads all interfaces in this way.
    let looks = at_each_look(&["status"], detach, |stopped| {
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
        assert_eq!(stopped.stderr, "", "{stopped:?}");
    });
    assert!(looks >= 25, "{looks}");
}

#[test]
fn reader_always_finds_an_attachment_during_detach_and_attach() {
    need_kernel!();
    let anew = |place: &Place| {
        place.limiter("detach eth0").expect(0);
        place.attach().expect(0);
    };
    let looks = at_each_look(&["check", "eth0", "192.0.2.2"], anew, |stopped| {
        assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    });
    assert!(looks >= 25, "{looks}");
}
