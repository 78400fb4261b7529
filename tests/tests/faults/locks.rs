//! A change never holds up another change for longer than the swap takes.

use limiter_tests::{
    command::{limiter, prepared},
    need_kernel,
    steps::{End, Fault, run_with},
};

use super::case::{BY_OLD, Case, EDITED, Place};

/// A command loads its program, which takes seconds with long lists. Meanwhile a second command changes the attachment,
/// and a third one changes another attachment. All three changes take effect.
#[test]
fn change_is_prepared_without_the_lock() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], BY_OLD, BY_OLD);
    let lo = ["attach", "lo", "--rate", "5/s", "--mode", "generic"];
    place.hosts.limiter(&lo).expect(0);
    let mut loads = 0;
    let run = || {
        run_with(&mut prepared(&["deny", "add", "eth0", EDITED]), |call| {
            if call.name == "program" {
                loads += 1;
            }
            if call.name == "program" && loads == 1 {
                limiter("set eth0 --limit strangers --burst 5").expect(0);
                limiter("set lo --rate 6/s").expect(0);
            }
            Fault::None
        })
    };
    let stopped = place.hosts.server.namespace.run(run).unwrap().unwrap();
    assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
    assert_eq!(case.settled("both"), [5, 0, BY_OLD[2]]);
    case.expect_tidy("both");
    place.hosts.run("detach lo");
}

/// Another command attaches limiter again before the change is ready.
#[test]
fn change_does_not_apply_if_detached_during_its_preparation() {
    need_kernel!();
    let place = Place::attached();
    let case = Case::new(&place, &[], BY_OLD, BY_OLD);
    for attached_anew in [true, false] {
        let mut loads = 0;
        let set = ["set", "eth0", "--limit", "strangers", "--burst", "5"];
        let run = || {
            run_with(&mut prepared(&set), |call| {
                loads += usize::from(call.name == "program");
                if call.name == "program" && loads == 1 {
                    limiter("detach eth0").expect(0);
                    if attached_anew {
                        limiter(&["attach", "eth0", "--config", &place.old]).expect(0);
                    }
                }
                Fault::None
            })
        };
        let stopped = place.hosts.server.namespace.run(run).unwrap().unwrap();
        if attached_anew {
            assert_eq!(stopped.end, End::Done(0), "{stopped:?}");
            assert_eq!(case.settled("anew"), [5, BY_OLD[1], BY_OLD[2]]);
            case.expect_tidy("anew");
        } else {
            assert_eq!(stopped.end, End::Done(1), "{stopped:?}");
            assert!(stopped.stderr.contains("not attached"), "{stopped:?}");
            assert!(!place.hosts.pins().exists());
        }
    }
}
