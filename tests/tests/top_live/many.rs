//! The view stays within its bounds of processor time and memory, even with a million sources.

use std::{fs, thread, time::Duration};

use limiter_tests::{
    hosts::Hosts, number, processes::status_of, raw::Raw, screen::Screen, traffic::udp,
};

use limiter_user::show::units::grouped;

use super::shown;

const SOURCES: u32 = 1_000_000;
/// Room for all sources, except possibly one or two, because a table is never completely full.
const ROOM: u64 = 1_500_000;

/// Offset of an IPv4 source in a frame.
const SOURCE: usize = 14 + 12;

/// Sends one packet from each of these sources.
fn fill(hosts: &Hosts) {
    let wire = Raw::open(&hosts.client);
    let mut frame = udp(hosts, [10, 0, 0, 0].into(), 9);
    for i in 0..SOURCES {
        // The program does not check the header's checksum before the limit.
        frame[SOURCE..SOURCE + 4].copy_from_slice(&(0x0a00_0000 + i).to_be_bytes());
        wire.send(&frame);
    }
}

fn processor_time(process: nix::unistd::Pid) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name before the fields may contain spaces: proc_pid_stat(5).
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| fields[field - 3].parse::<u64>().unwrap();
    // USER_HZ is 100 on all platforms of limiter.
    (ticks(14) + ticks(15)) as f64 / 100.0
}

#[test]
fn view_of_many_sources_takes_at_most_a_quarter_of_a_cpu() {
    need_terminal!();
    let hosts = Hosts::new();
    hosts.run(&format!(
        "attach eth0 --rate 1/h --burst 2 --new-sources none --max-sources {ROOM}"
    ));
    fill(&hosts);
    let status = hosts.status();
    let tracked = number(&status["sources"]["tracked"]);
    assert!(tracked > u64::from(SOURCES) - 100, "{status}");

    let screen = Screen::open(&hosts.server, (80, 24), &[]);
    screen.limiter("top eth0 --interval 1s");
    screen.wait_for(&format!("200 of {} sources by dropped/s", grouped(tracked)));
    let view = screen.process();
    let passes = |screen: &Screen| {
        let lines = screen.lines();
        let line = lines
            .iter()
            .find(|line| line.starts_with("default"))
            .unwrap();
        shown(line.split_whitespace().nth_back(1).unwrap())
    };
    assert_eq!(passes(&screen), tracked, "each has sent one packet");
    let (begin, before) = (std::time::Instant::now(), processor_time(view));
    thread::sleep(Duration::from_secs(5));
    // This order, and one tick more, make the check stricter, never looser.
    let used = processor_time(view) - before;
    let share = used / begin.elapsed().as_secs_f64();
    let peak = status_of(view, "VmHWM");
    let peak = 1024 * peak.trim_end_matches(" kB").parse::<u64>().unwrap();
    eprintln!("{share:.3} of a processor, {peak} bytes at most");
    // A reading takes about ten times as long without compiler optimisation.
    let allowed = if cfg!(debug_assertions) { 0.75 } else { 0.25 };
    assert!(share < allowed, "{share:.3} of a processor");
    // The table, twelve bytes for each entry, and the program. A list of all sources would not fit.
    let most = ROOM * (32 + 12) + (32 << 20);
    assert!(peak < most, "{peak} bytes, {most} expected at most");
    screen.press("q");
    screen.wait_for("status 0");
}
