//! What the tests of `attach --try` share.

use std::{fs, path::Path, time::SystemTime};

use limiter_user::kernel::sys::interface;
use nix::unistd::Pid;

use crate::{
    command::Outcome,
    eventually,
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

/// The processes that hold the link of the attachment with these pins.
#[must_use]
pub fn holders(pins: &Path) -> Vec<Pid> {
    let wanted = format!("hold\0{}\0", pins.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let holds = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&wanted)
    };
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(holds)
        .map(Pid::from_raw)
        .collect()
}

/// The process that holds the link of the trial on the server.
#[must_use]
pub fn holder(hosts: &Hosts) -> Pid {
    let holders = holders(&hosts.pins());
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders[0]
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
    let pins = hosts.pins();
    assert!(!pins.exists(), "pins are left");
    eventually("the holder is gone", || holders(&pins).is_empty());
}
