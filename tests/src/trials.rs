//! Shared parts of the tests of trials.

use std::{
    thread,
    time::{Duration, SystemTime},
};

use limiter_kernel::sys::interface;

use crate::{
    command::Outcome,
    hosts::{CLIENT, Hosts},
    probe::Probe,
};

/// Passes three packets and no more, which shows that the program is attached.
pub const LIMIT: [&str; 6] = ["attach", "eth0", "--rate", "1/h", "--burst", "3"];

/// Attaches for `duration`.
pub fn attach(hosts: &Hosts, duration: &str) -> Outcome {
    let outcome = hosts.limiter(&[&LIMIT[..], &["--try", duration]].concat());
    outcome.expect(0);
    outcome
}

/// Sends ten packets. Returns how many arrive.
pub fn passed(hosts: &Hosts) -> usize {
    Probe::new(hosts).passed(CLIENT)
}

/// True if the server's interface has a program, according to netlink, independent of pins.
pub fn has_program(hosts: &Hosts) -> bool {
    let interface = hosts
        .server
        .namespace
        .block_on(|| interface::by_name("eth0"));
    interface.unwrap().unwrap().xdp.is_some()
}

/// End of the trial, from `status --json`.
pub fn try_until(hosts: &Hosts) -> Option<SystemTime> {
    let until = &hosts.status()["try_until"];
    until
        .as_str()
        .map(|text| humantime::parse_rfc3339(text).unwrap())
}

/// Panics unless the server is as before the attachment.
pub fn expect_nothing_left(hosts: &Hosts) {
    assert!(!has_program(hosts));
    assert!(!hosts.pins().exists(), "pins are left");
}

/// Waits for the end of the server's trial, which is a few seconds away.
pub fn wait_for_the_end(hosts: &Hosts) {
    let until = try_until(hosts).expect("a trial runs");
    // The deadline is given in whole seconds.
    let end = until + Duration::from_secs(1) + Duration::from_millis(50);
    thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default());
}
