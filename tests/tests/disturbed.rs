//! Counts stay exact while processors go offline and come back, the machine sleeps, the clock of the day is set, and a sender
//! interrupts another one on its processor. All but the last change the machine, so they run only in a machine of `cargo
//! xtask test --kernels disturbed`.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr},
    process::Command,
    thread,
    time::Duration,
};

use limiter_kernel::sys::{requirements, requirements::KernelVersion};
use limiter_tests::{
    cpus::{alone, pin_to},
    eventually,
    files::Folder,
    hosts::{Hosts, SERVER},
    need, need_kernel, number,
    packet::Ends,
    raw::Raw,
    traffic::{Flood, Traffic, udp},
};
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeSpec,
    },
    time::{ClockId, clock_gettime, clock_settime},
};

/// Sources, and packets that pass of each.
const SOURCES: u64 = 50;
const BURST: u64 = 7;
/// Packets of each source: of the sender of real-time priority, and of the one that it interrupts.
const ROUNDS: [u64; 2] = [60, 1_200];

/// True in the machine that may be disturbed.
fn may_disturb() -> bool {
    env::var("release").is_ok_and(|release| release.starts_with("disturbed"))
}

fn write(path: &str, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn now(clock: ClockId) -> Duration {
    clock_gettime(clock).unwrap().into()
}

/// A packet of each source.
fn frames(hosts: &Hosts, first: u32, count: u32) -> Vec<Vec<u8>> {
    let source = |number| {
        IpAddr::V4(Ipv4Addr::from(
            u32::from(Ipv4Addr::new(10, 0, 0, 1)) + number,
        ))
    };
    let numbers = first..first + count;
    numbers
        .map(|number| udp(hosts, source(number), 9))
        .collect()
}

fn counts(hosts: &Hosts) -> [u64; 2] {
    let status = hosts.status();
    ["seen", "passed"].map(|key| number(&status[key]["packets"]))
}

/// Sends packets of all sources while `disturb` runs, and more afterwards: all are counted, and the burst of each source
/// passes, once.
fn stays_exact(mode: &str, disturb: impl FnOnce(&Hosts)) {
    let hosts = Hosts::new();
    hosts.run(&format!(
        "attach eth0 --rate 1/h --burst {BURST} --new-sources none --mode {mode}"
    ));
    let frames = frames(&hosts, 0, SOURCES as u32);
    let flood = Flood::start(&hosts, frames.clone(), Duration::from_millis(20));
    eventually("a round is sent", || flood.sent() > SOURCES);
    disturb(&hosts);
    let sent = flood.end();
    let wire = Raw::open(&hosts.client);
    let more = BURST + 1;
    for _ in 0..more {
        frames.iter().for_each(|frame| wire.send(frame));
    }
    let all = [sent + more * SOURCES, SOURCES * BURST];
    eventually("all packets are counted", || counts(&hosts)[0] >= all[0]);
    assert_eq!(counts(&hosts), all, "{mode}");
}

#[test]
fn counts_are_exact_while_a_processor_goes_offline_and_comes_back() {
    if !may_disturb() {
        return;
    }
    const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";
    for mode in ["native", "generic", "tc"] {
        stays_exact(mode, |hosts| {
            for _ in 0..3 {
                for state in ["0", "1"] {
                    write(ONLINE, state);
                    assert_eq!(fs::read_to_string(ONLINE).unwrap().trim(), state);
                    thread::sleep(Duration::from_millis(300));
                    // Counters of both processors are read, and the program is loaded anew.
                    let before = counts(hosts);
                    hosts.run("set eth0 --limit default --rate 2/h");
                    hosts.run("set eth0 --limit default --rate 1/h");
                    assert!(counts(hosts)[0] >= before[0], "{mode}, {state}");
                }
            }
        });
    }
}

#[test]
fn counts_are_exact_when_the_clock_of_the_day_is_set() {
    if !may_disturb() {
        return;
    }
    const DAY: i64 = 86_400;
    let set = |days: i64| {
        let (now, own) = (now(ClockId::CLOCK_REALTIME), now(ClockId::CLOCK_MONOTONIC));
        let seconds = now.as_secs().cast_signed() + days * DAY;
        clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::new(seconds, 0)).unwrap();
        let later = self::now(ClockId::CLOCK_MONOTONIC);
        assert!(
            later - own < Duration::from_secs(60),
            "the kernel's clock is another one"
        );
    };
    for mode in ["native", "tc"] {
        stays_exact(mode, |hosts| {
            hosts.run("ban eth0 203.0.113.7 --for 1h");
            for days in [1, -400, 399] {
                set(days);
                thread::sleep(Duration::from_millis(300));
                hosts.run("status eth0");
                let bans = hosts.run("bans eth0");
                assert!(bans.contains("203.0.113.7"), "{days} days: {bans}");
            }
        });
    }
}

/// With `pm_test`, the kernel does all that precedes sleep, then waits for five seconds instead of switching off: the other
/// processors are offline, and its clock stands still.
#[test]
fn counts_are_exact_when_the_machine_sleeps() {
    if !may_disturb() {
        return;
    }
    let slept = || now(ClockId::CLOCK_BOOTTIME).saturating_sub(now(ClockId::CLOCK_MONOTONIC));
    for mode in ["native", "tc"] {
        stays_exact(mode, |hosts| {
            let before = slept();
            write("/sys/power/pm_test", "core");
            write("/sys/power/state", "mem");
            let slept = slept() - before;
            println!("slept {slept:?} by the clock of boot");
            hosts.run("status eth0");
        });
    }
    // Tokens come by the kernel's clock, which does not count sleep.
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/s --burst 3");
    let traffic = Traffic::new(&hosts);
    let begin = now(ClockId::CLOCK_MONOTONIC);
    assert!(traffic.passed("10.0.0.1", 10) >= 3);
    write("/sys/power/pm_test", "core");
    write("/sys/power/state", "mem");
    let passed = 3 + traffic.passed("10.0.0.1", 10);
    let awake = (now(ClockId::CLOCK_MONOTONIC) - begin).as_secs();
    assert!(passed <= 3 + awake + 1, "{passed} in {awake} s");
}

/// A sender of real-time priority runs as soon as it may, so also while the kernel handles a packet of the other one where
/// it lets itself be interrupted (PREEMPT_RT). Packets that go out are handled by their senders.
#[test]
fn counts_are_exact_when_a_sender_interrupts_another_one_on_its_processor() {
    need_kernel!();
    let _alone = alone();
    let files = Folder::new();
    let name = nix::sys::utsname::uname().unwrap();
    let is_new_real_time = name.version().to_string_lossy().contains("PREEMPT_RT")
        && requirements::version().unwrap() >= Some(KernelVersion(6, 18));
    let modes = [
        ("native", "in"),
        ("generic", "in"),
        ("tc", "in"),
        ("tc", "out"),
    ];
    let modes = &modes[..if need::tcx() { 4 } else { 2 }];
    for (mode, direction) in modes {
        let hosts = Hosts::new();
        // Several limits take the full path, which keeps what it knows of a packet in a map of the processor.
        let file = format!(
            "interfaces = [\"eth0\"]\nmode = \"{mode}\"\ndirection = \"{direction}\"\nnew_sources = \"none\"\n\
             [[limit]]\nname = \"each\"\nrate = \"1/h\"\nburst = {BURST}\n\
             [[limit]]\nname = \"pair\"\nkey = \"source + destination\"\nrate = \"1/h\"\nburst = 1000\n"
        );
        let file = files.write("limiter.toml", file);
        let attached = hosts.limiter(&["attach", "--config", &file]);
        attached.expect(0);
        let may_mix_up = attached.stderr.contains("may be taken for each other");
        assert_eq!(
            may_mix_up,
            *direction == "out" && is_new_real_time,
            "{attached:#?}"
        );
        let sent = send_in_turns(&hosts, *direction == "out");
        if may_mix_up {
            // Seen on Debian's 7.3.4-rt: 13 packets of 63,000.
            continue;
        }
        let place = if *direction == "out" {
            "eth0:out"
        } else {
            "eth0"
        };
        let status = || hosts.json(&format!("status {place} --json"))["interfaces"][0].clone();
        let seen = || number(&status()["seen"]["packets"]);
        eventually("all packets are counted", || seen() >= sent);
        each_has_its_own(&hosts, place);
        let status = status();
        let [seen, passed, dropped] = [
            &status["seen"]["packets"],
            &status["passed"]["packets"],
            &status["drops"]["limit"]["packets"],
        ]
        .map(number);
        let wanted = 2 * SOURCES * BURST;
        assert_eq!(
            [seen, passed, dropped],
            [sent, wanted, sent - wanted],
            "{mode}, {direction}: {status:#}"
        );
    }
}

/// Panics unless each source was charged for each of its own packets. If two packets get mixed up, one source has one
/// more, and another one less.
fn each_has_its_own(hosts: &Hosts, place: &str) {
    let top = hosts.json(&format!(
        "top {place} --once --json --interval 100ms -n 300"
    ));
    let rows = top["sources"].as_array().unwrap().iter();
    let counts = rows
        .filter(|row| row["limit"] == "each")
        .map(|row| ["passed_packets", "dropped_packets"].map(|key| number(&row[key])));
    let counts: Vec<_> = counts.collect();
    for rounds in ROUNDS {
        let own = |counts: &&[u64; 2]| **counts == [BURST, rounds - BURST];
        let right = counts.iter().filter(own).count() as u64;
        assert_eq!(
            right, SOURCES,
            "{place}, {rounds}: passed and dropped: {counts:?}"
        );
    }
}

/// Two threads of one processor send packets of different addresses, one with real-time priority. Returns their number.
fn send_in_turns(hosts: &Hosts, is_out: bool) -> u64 {
    let own = |first: u32| match is_out {
        true => (Raw::open(&hosts.server), sent_frames(hosts, first)),
        false => (
            Raw::open(&hosts.client),
            frames(hosts, first, SOURCES as u32),
        ),
    };
    let senders = [own(0), own(SOURCES as u32)];
    thread::scope(|scope| {
        for (number, (wire, frames)) in senders.iter().enumerate() {
            scope.spawn(move || {
                pin_to(0);
                if number == 0 {
                    let thread = nix::unistd::gettid().to_string();
                    let mut chrt = Command::new("chrt");
                    let set = chrt.args(["-f", "-p", "50", &thread]).status();
                    assert!(set.unwrap().success());
                }
                let interruptions = || {
                    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
                    usage.involuntary_context_switches()
                };
                let before = interruptions();
                for _ in 0..ROUNDS[number] {
                    for frame in frames {
                        // A packet that a limit drops is an error of the socket.
                        let _ = wire.try_send(frame);
                        if number == 0 {
                            // The other one is in the middle of a packet when this one comes back.
                            thread::sleep(Duration::from_micros(50));
                        }
                    }
                }
                if number == 1 {
                    println!("interrupted {} times", interruptions() - before);
                    assert!(interruptions() > before);
                }
            });
        }
    });
    ROUNDS.iter().sum::<u64>() * SOURCES
}

/// A packet from the server to each of [`SOURCES`] addresses.
fn sent_frames(hosts: &Hosts, first: u32) -> Vec<Vec<u8>> {
    let ends = |number| Ends {
        macs: (hosts.server.mac, hosts.client.mac),
        from: (SERVER, 40_000).into(),
        to: (
            Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + number),
            9,
        )
            .into(),
    };
    let numbers = first..first + SOURCES as u32;
    numbers.map(|number| ends(number).udp(&[0; 18])).collect()
}
