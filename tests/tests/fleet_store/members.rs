//! The store counts living members and compares their limits, whatever else is under its keys.

use std::{thread, time::Duration};

use limiter_fleet::{conflicts::Held, store::Beat};

use super::{Client, FLEET, store};

pub const ALIVE: Duration = Duration::from_secs(60);
/// Shorter than the pauses of the tests.
const SHORT: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(20);

pub fn held(name: &str, cost: u64) -> Held {
    Held {
        name: name.to_owned(),
        quota: format!("/32,/64 {cost} {}", 10 * cost),
        words: format!("cost {cost}, burst 10"),
    }
}

impl Client {
    pub fn beat(&mut self, member: u64, held: &[Held], alive: Duration) -> Beat {
        let label = format!("host-{member}/eth0");
        let lists = ["deny".to_owned()];
        let beat = self
            .store
            .heartbeat(FLEET, member, &label, held, &lists, alive);
        self.runtime.block_on(beat).unwrap()
    }

    /// Limits of all members, sorted.
    fn compare(&mut self, held: &[Held], alive: Duration) -> Vec<Held> {
        let mut all = self.beat(1, held, alive).held;
        all.sort_unstable();
        all
    }
}

#[test]
fn members_are_counted_until_they_fall_silent() {
    let (server, mut store) = store!();
    let first = store.beat(1, &[], ALIVE);
    assert_eq!((first.hosts, first.revision), (1, 0));
    assert_eq!(first.oldest, Duration::ZERO);
    thread::sleep(PAUSE);
    let second = store.beat(2, &[], ALIVE);
    assert_eq!(second.hosts, 2);
    assert!(second.oldest >= PAUSE, "{second:?}");
    // A silent member is not counted, but not forgotten.
    assert_eq!(store.beat(2, &[], SHORT).hosts, 1);
    assert_eq!(store.beat(2, &[], ALIVE).hosts, 2);
    let members = server.members();
    let expected = "0000000000000001 host-1/eth0\n0000000000000002 host-2/eth0";
    assert_eq!(members, expected);
}

/// Outdated limits are not included.
#[test]
fn members_learn_the_limits_of_all_living_members() {
    let (server, mut store) = store!();
    let both = [held("all", 1), held("all", 2), held("dns", 7)];
    let own = [both[0].clone(), both[2].clone()];
    // Repeating it changes nothing.
    assert_eq!(store.compare(&own, ALIVE), own);
    assert_eq!(store.compare(&own, ALIVE), own);
    assert_eq!(store.compare(&both[1..2], ALIVE), both);
    // A member without limits may ask too.
    assert_eq!(store.compare(&[], ALIVE), both);
    thread::sleep(PAUSE);
    assert_eq!(store.compare(&both[1..2], SHORT), both[1..2]);
    // The limits are deleted, not just hidden.
    assert_eq!(server.limits(), "1");
}
