//! The price of sampling, as processor time of a packet on a wire.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use limiter_tests::{
    command::binary,
    eventually,
    hosts::{CLIENT, Hosts},
    need_kernel, number,
    raw::Raw,
    traffic::udp,
};
use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// Packets of a turn, and turns of each kind.
const PACKETS: u32 = 10_000;
const TURNS: usize = 12;
/// The greatest share that sampling may take. The goal is a twentieth; the rest is for other work on the machine.
const SHARE_MAX: f64 = 0.2;

/// Processor time of this thread, in nanoseconds. It sends each packet, and its processor receives it at once.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// Begins to explain the traffic of the server, until it is interrupted.
fn explain(hosts: &Hosts) -> Child {
    let mut command = Command::new(binary());
    command.args(["explain", "eth0", "--for", "2m", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let spawn = || command.spawn().unwrap();
    hosts.server.namespace.run(spawn).unwrap()
}

/// Nanoseconds of a packet of one turn.
fn turn(wire: &Raw, frame: &[u8]) -> f64 {
    let begun = processor_time();
    for _ in 0..PACKETS {
        wire.send(frame);
    }
    (processor_time() - begun) / f64::from(PACKETS)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn sampling_takes_a_small_part_of_the_throughput() {
    need_kernel!();
    for (kind, rate) in [("passed", "1G/s"), ("dropped", "1/h")] {
        let hosts = Hosts::new();
        hosts.run(&format!("attach eth0 --rate {rate}"));
        let (wire, frame) = (Raw::to_send(&hosts.client), udp(&hosts, CLIENT, 9));
        let (mut plain, mut sampled) = (Vec::new(), Vec::new());
        let program = || number(&hosts.status()["program_id"]);
        turn(&wire, &frame);
        for _ in 0..TURNS / 4 {
            (0..4).for_each(|_| plain.push(turn(&wire, &frame)));
            let before = program();
            let mut explained = explain(&hosts);
            eventually("packets are sampled", || program() != before);
            // The sample gets its size in the first windows.
            for _ in 0..4 {
                turn(&wire, &frame);
                thread::sleep(Duration::from_millis(300));
            }
            (0..4).for_each(|_| sampled.push(turn(&wire, &frame)));
            assert!(explained.try_wait().unwrap().is_none(), "it still samples");
            let id = Pid::from_raw(explained.id().try_into().unwrap());
            kill(id, Signal::SIGINT).unwrap();
            let output = explained.wait_with_output().unwrap();
            let explained: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(number(&explained["sampled"]) > 200, "{explained:#}");
        }
        let (plain, sampled) = (median(plain), median(sampled));
        let share = sampled / plain - 1.0;
        println!(
            "{kind}: {plain:.0} ns, sampled {sampled:.0} ns: {:.1} % more",
            100.0 * share
        );
        assert!(
            share < SHARE_MAX,
            "{kind}: {plain:.0} ns, sampled {sampled:.0} ns"
        );
    }
}
