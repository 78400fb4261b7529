//! What the tests of trials share.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use limiter_user::kernel::sys::interface;

use crate::{
    command::Outcome,
    hosts::{CLIENT, Hosts},
    probe::Probe,
};

/// Three packets, and then none: whether the program is there.
pub const LIMIT: [&str; 6] = ["attach", "eth0", "--rate", "1/h", "--burst", "3"];

/// Attaches for `duration`.
pub fn attach(hosts: &Hosts, duration: &str) -> Outcome {
    let outcome = hosts.limiter(&[&LIMIT[..], &["--try", duration]].concat());
    outcome.expect(0);
    outcome
}

/// Sends ten packets; how many arrive.
#[must_use]
pub fn passed(hosts: &Hosts) -> usize {
    Probe::new(hosts).passed(CLIENT)
}

/// The program on the server's interface according to netlink, which knows nothing of pins.
#[must_use]
pub fn has_program(hosts: &Hosts) -> bool {
    let interface = hosts
        .server
        .namespace
        .block_on(|| interface::by_name("eth0"));
    interface.unwrap().unwrap().xdp.is_some()
}

/// What `status --json` says of the trial.
#[must_use]
pub fn try_until(hosts: &Hosts) -> Option<SystemTime> {
    let until = &hosts.status()["try_until"];
    until
        .as_str()
        .map(|text| humantime::parse_rfc3339(text).unwrap())
}

/// Panics unless the server is as it was before.
pub fn expect_nothing_left(hosts: &Hosts) {
    assert!(!has_program(hosts));
    assert!(!hosts.pins().exists(), "pins are left");
}

/// Waits until a trial of the server is over, which ends within seconds.
pub fn wait_for_the_end(hosts: &Hosts) {
    let until = try_until(hosts).expect("a trial runs");
    // Told in whole seconds.
    let end = until + Duration::from_secs(1) + Duration::from_millis(50);
    thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default());
}
