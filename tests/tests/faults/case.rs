//! Stops a command at each of its steps, and checks the state after each stop.

use std::{collections::BTreeSet, fs, net::IpAddr};

use limiter_kernel::program::maps::{LIST_MAPS, MAPS};
use limiter_tests::{
    calls::Call,
    command::{Arguments, Outcome, prepared},
    effort::repetitions,
    eventually,
    files::{Folder, at_driver},
    hosts::Hosts,
    objects::{Object, expect_gone},
    probe::{Probe, SENT},
    steps::{End, Fault, Steps, Stopped, run_with},
    trials::has_program,
};

/// A source on the list that a case edits. It is also within the allowed prefix.
pub const EDITED: &str = "10.99.0.1";
/// Always allowed.
const ALLOWED: &str = "10.99.0.2";

/// Banned together. The addresses are within an allowed prefix, so that no limit drops their packets.
pub const MANY: [&str; 26] = [
    EDITED,
    "10.99.0.101",
    "10.99.0.102",
    "10.99.0.103",
    "10.99.0.104",
    "10.99.0.105",
    "10.99.0.106",
    "10.99.0.107",
    "10.99.0.108",
    "10.99.0.109",
    "10.99.0.110",
    "10.99.0.111",
    "10.99.0.112",
    "10.99.0.113",
    "10.99.0.114",
    "10.99.0.115",
    "10.99.0.116",
    "10.99.0.117",
    "10.99.0.118",
    "10.99.0.119",
    "10.97.1.0/24",
    "10.97.2.0/24",
    "10.97.3.0/24",
    "2001:db8:97::/48",
    "2001:db8:98::/48",
    "2001:db8:99::/48",
];
/// Those of [`MANY`] that are banned for an hour before.
pub const RENEWED: [&str; 5] = [
    "10.99.0.103",
    "10.99.0.111",
    "10.99.0.119",
    "10.97.2.0/24",
    "2001:db8:98::/48",
];

/// Number of packets that pass, out of ten: of a new source, of [`EDITED`], and of [`ALLOWED`].
pub type Look = [usize; 3];
/// The result without limiter.
pub const ABSENT: Look = [SENT; 3];
/// The result under [`OLD`].
pub const BY_OLD: Look = [3, SENT, SENT];

/// The result under [`OLD`] with [`EDITED`] banned or denied.
const BY_BAN: Look = [3, 0, SENT];

/// The configuration before most cases.
pub const OLD: &str = r#"
[lists]
allow = ["10.99.0.0/24"]
own = []

[[limit]]
name = "own"
match = { source = "own" }
rate = "1/h"
burst = 7

[[limit]]
name = "strangers"
match = { unless = ["own"] }
rate = "1/h"
burst = 3
"#;

/// The other configuration: a larger burst, one more limit, and an allowed source denied.
pub const NEW: &str = r#"
[lists]
allow = ["10.99.0.0/24"]
deny = ["10.99.0.1"]

[[limit]]
name = "strangers"
rate = "1/h"
burst = 5

[[limit]]
name = "networks"
key = "/24,/64"
rate = "1/h"
burst = 1000
"#;
/// The result under [`NEW`].
pub const BY_NEW: Look = [5, 0, SENT];

/// Hosts, and files with [`OLD`] and [`NEW`].
#[derive(Debug)]
pub struct Place {
    pub hosts: Hosts,
    _files: Folder,
    pub old: String,
    pub new: String,
    /// Long deny lists. Only the second one has [`EDITED`].
    lists: [String; 2],
}

/// So many prefixes of both families, far from all sources.
fn far(network: u8) -> String {
    let prefix =
        |number: u8| format!("10.{network}.{number}.0/25\n2001:db8:{network}:{number}::/64\n");
    (0..=255).map(prefix).collect()
}

impl Place {
    pub fn new() -> Self {
        let files = Folder::new();
        Self {
            hosts: Hosts::new(),
            old: files.write("old.toml", at_driver(OLD)),
            new: files.write("new.toml", at_driver(NEW)),
            lists: [
                files.write("before.txt", far(95)),
                files.write("after.txt", far(96) + EDITED),
            ],
            _files: files,
        }
    }

    /// New hosts with limiter attached.
    pub fn attached() -> Self {
        let place = Self::new();
        place.attach().expect(0);
        place
    }

    fn attaching(&self) -> [&str; 4] {
        ["attach", "eth0", "--config", &self.old]
    }

    pub fn attach(&self) -> Outcome {
        self.limiter(&self.attaching())
    }

    /// Runs `limiter` on the server. Retries while other commands hold the lock for too long.
    pub fn limiter(&self, arguments: &(impl Arguments + ?Sized)) -> Outcome {
        const TRIES: usize = 10;
        let runs = (0..TRIES).map(|_| self.hosts.limiter(arguments));
        let mut done = runs.filter(|outcome| !outcome.stderr.contains(BUSY));
        done.next().unwrap()
    }
}

/// The message of a command that did not get the lock.
const BUSY: &str = "another limiter command has held the lock";

/// A command and its effect.
pub struct Case<'p> {
    pub place: &'p Place,
    pub probe: Probe<'p>,
    pub command: Vec<&'p str>,
    pub before: Look,
    pub after: Look,
}

/// A command that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `attach`.
    Attach,
    /// `detach`.
    Detach,
    /// `reload --try`: loads two programs with other lists, and swaps one in, as every change does.
    Change,
    /// `deny replace` of a long list: loads a program with another index of all lists.
    List,
    /// `keep --revert`, which ends a trial.
    Revert,
    /// `ban` of an address: one update of a map.
    Ban,
    /// `ban` of [`MANY`], of which [`RENEWED`] are banned.
    Bans,
    /// `unban` of [`MANY`].
    Unbans,
}

impl Verb {
    /// Stops the command at each step by `fault`. `judge` checks the result.
    pub fn at_each_step(
        self,
        fault: impl Fn(usize) -> Fault + Sync,
        judge: impl Fn(&Case<'_>, &Stopped, &Call, Look),
    ) {
        let place = Place::new();
        let reload = |file| ["reload", "eth0", "--config", file];
        let on_trial = [&reload(&place.new)[..], &["--try", "1h"]].concat();
        let ban_all = [&["ban", "eth0"], &MANY[..]].concat();
        let unban_all = [&["unban", "eth0"], &MANY[..]].concat();
        let [denied_before, denied_after] = &place.lists;
        let replace = |file| ["deny", "replace", "eth0", "--file", file];
        let (command, before, after) = match self {
            // The allowed prefix is in the same index, and stays.
            Self::List => (replace(denied_after).to_vec(), BY_OLD, BY_BAN),
            Self::Attach => (place.attaching().to_vec(), ABSENT, BY_OLD),
            Self::Detach => (vec!["detach", "eth0"], BY_OLD, ABSENT),
            Self::Change => (on_trial.clone(), BY_OLD, BY_NEW),
            Self::Revert => (vec!["keep", "eth0", "--revert"], BY_NEW, BY_OLD),
            Self::Ban => (vec!["ban", "eth0", EDITED], BY_OLD, BY_BAN),
            Self::Bans => (ban_all.clone(), BY_OLD, BY_BAN),
            Self::Unbans => (unban_all.clone(), BY_BAN, BY_OLD),
        };
        let case = Case::new(&place, &command, before, after);
        let is_attached = || place.hosts.pins().join("link").exists();
        let restore = || match self {
            Self::Attach => place.limiter("detach eth0").expect(0),
            _ if !is_attached() => place.attach().expect(0),
            Self::Detach => {}
            Self::Ban => place.limiter(&["unban", "eth0", EDITED]).expect(0),
            Self::Bans => {
                place.limiter(&unban_all).expect(0);
                let some = [&["ban", "eth0", "--for", "1h"], &RENEWED[..]].concat();
                place.limiter(&some).expect(0);
            }
            Self::Unbans => place.limiter(&ban_all).expect(0),
            Self::List => place.limiter(&replace(denied_before)).expect(0),
            Self::Change | Self::Revert => place.limiter(&reload(&place.old)).expect(0),
        };
        let begin = || {
            restore();
            if self == Self::Revert {
                place.limiter(&on_trial).expect(0);
            }
        };
        // The first time, it may do no more than attach.
        begin();
        begin();
        // They load programs at each step.
        let is_slow = [Self::Attach, Self::Change, Self::List, Self::Revert].contains(&self);
        let is_thinned = is_slow && repetitions(true, false);
        let counts = case.at_each_step(is_thinned, &fault, &judge, |step| {
            // After every third step, the stopped command is the next one.
            if step % 3 == 0 && [Self::Attach, Self::Detach].contains(&self) {
                place.limiter(&command).expect(0);
                assert_eq!(case.settled("repeated"), after);
                case.expect_tidy("repeated");
            }
            begin();
        });
        println!("{self:?}: {counts:?}");
        let [before, after] = counts;
        let is_long = after > 0 && before + after >= 5;
        // The bans of one command are in force with its last step.
        let is_ban = [Self::Ban, Self::Bans].contains(&self);
        assert!(before > 0 && (is_long || is_ban), "{counts:?}");
    }
}

impl<'p> Case<'p> {
    pub fn new(place: &'p Place, command: &[&'p str], before: Look, after: Look) -> Self {
        Self {
            place,
            probe: Probe::new(&place.hosts),
            command: command.to_vec(),
            before,
            after,
        }
    }

    /// Counts the packets that pass.
    pub fn look(&self) -> Look {
        let passed = |source: &str| self.probe.passed(source.parse::<IpAddr>().unwrap());
        [self.probe.burst(), passed(EDITED), passed(ALLOWED)]
    }

    /// Runs the command with `fault` at step number `step`. At every second step, all later calls of that kind fail too.
    fn fault_at(&self, step: usize, fault: Fault) -> (Stopped, Option<Call>) {
        let (mut found, mut steps) = (None::<Call>, Steps::default());
        let run = || {
            run_with(&mut prepared(&self.command), |call| {
                // Before a call without a lasting effect, a kill is like one before the next call with one.
                let is_step = call.lasts || fault != Fault::Kill;
                let is_next = is_step && steps.with(call) > step;
                let is_hit = match &found {
                    Some(found) => step % 2 == 1 && found.name == call.name,
                    None => is_next,
                };
                if !is_hit {
                    return Fault::None;
                }
                found.get_or_insert_with(|| call.clone());
                fault
            })
        };
        let stopped = self.place.hosts.server.namespace.run(run).unwrap().unwrap();
        (stopped, found)
    }

    /// Panics unless program, pins, packets and `status` agree on the state. Returns the packets that pass.
    pub fn settled(&self, situation: &str) -> Look {
        // The kernel releases the link of a dead process with a delay.
        let link = self.place.hosts.pins().join("link");
        eventually("program and pins agree", || {
            has_program(&self.place.hosts) == link.exists()
        });
        let look = self.look();
        assert_eq!(look == ABSENT, !link.exists(), "{situation}: {look:?}");
        let status = self.place.hosts.limiter("status eth0");
        if look == ABSENT {
            status.expect_error(1, &["not attached"]);
        } else {
            status.expect(0);
        }
        look
    }

    /// Panics if the fault has left something behind.
    pub fn expect_tidy(&self, situation: &str) {
        let pins = self.place.hosts.pins();
        let attached = pins.join("link").exists();
        assert_eq!(pins.exists(), attached, "{situation}: pins are left");
        if attached {
            let names = |folder: &std::path::Path| {
                let entries = fs::read_dir(folder).unwrap().flatten();
                entries
                    .map(|entry| entry.file_name().into_string().unwrap())
                    .collect::<Vec<_>>()
            };
            let all = names(&pins);
            let generations = all.iter().filter(|name| name.starts_with('g'));
            // A trial has another generation.
            let is_trial = || self.place.hosts.status()["try_until"].is_string();
            let wanted = 1 + usize::from(generations.clone().count() > 1 && is_trial());
            assert_eq!(
                all.len(),
                1 + MAPS.len() + wanted,
                "{situation}: link and maps: {all:?}"
            );
            for generation in generations {
                let own = names(&pins.join(generation));
                assert_eq!(
                    own.len(),
                    2 + LIST_MAPS.len(),
                    "{situation}: program, record, lists: {own:?}"
                );
            }
        }
    }

    /// Tries the steps in order: all, or if `is_thinned` every other pair. `next` is the next command, which must restore
    /// the state `before`. Returns after how many faults the state was `before`, and `after`.
    fn at_each_step(
        &self,
        is_thinned: bool,
        fault: impl Fn(usize) -> Fault,
        judge: impl Fn(&Self, &Stopped, &Call, Look),
        next: impl Fn(usize),
    ) -> [usize; 2] {
        const MOST: usize = 300;
        // The number of calls varies slightly between runs: the steps are at an end after several runs without a fault.
        const TIMES: usize = 3;
        let (mut step, mut done) = (0, 0);
        let mut counts = [0, 0];
        let mut held = BTreeSet::new();
        assert_eq!(self.settled("at the beginning"), self.before);
        while step < MOST {
            let mut tries = (0..10).map(|_| self.fault_at(step, fault(step)));
            let (stopped, call) = tries
                .find(|(stopped, _)| !stopped.stderr.contains(BUSY))
                .unwrap();
            let situation = format!("{:?}, step {step}: {call:?}: {stopped:?}", self.command);
            let look = self.settled(&situation);
            let Some(call) = call else {
                assert_eq!(
                    (stopped.end, look),
                    (End::Done(0), self.after),
                    "{situation}"
                );
                next(step);
                done += 1;
                if done == TIMES {
                    self.expect_gone(&held);
                    return counts;
                }
                continue;
            };
            assert!(
                [self.before, self.after].contains(&look),
                "{look:?}: {situation}"
            );
            judge(self, &stopped, &call, look);
            counts[usize::from(look == self.after)] += 1;
            held.extend(stopped.held);
            // The next fault shows whether this has restored the state.
            next(step);
            self.expect_tidy(&situation);
            // A pair has a fault at one call, and one at all later calls of that kind.
            step += if is_thinned && step % 2 == 1 { 3 } else { 1 };
            done = 0;
        }
        panic!("more than {MOST} steps");
    }

    /// Panics unless the kernel releases all objects in `held` that are not pinned.
    fn expect_gone(&self, held: &BTreeSet<Object>) {
        assert!(!held.is_empty());
        let pinned = Object::pinned_in(&self.place.hosts.pins());
        expect_gone(held.difference(&pinned));
    }
}
