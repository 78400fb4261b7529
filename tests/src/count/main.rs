//! Decides about packets of one scenario in user space. The test `instructions` runs it under valgrind, which counts
//! the last packet.

use std::{env, hint::black_box};

use limiter_common::abi::CLOCK_PACKET;
use limiter_counted::{Model, decide};
use limiter_tests::{
    engine::constants,
    scenario::{VERDICTS, counted},
};

/// A value at the beginning of a cache line, so that its place in memory changes no count.
#[repr(align(64))]
struct Aligned<T>(T);

fn main() {
    let arguments: Vec<usize> = env::args().flat_map(|text| text.parse()).collect();
    let [scenario, verdict] = arguments[..] else {
        panic!("name a scenario and a verdict by their numbers");
    };
    let (settings, frame) = counted(scenario, VERDICTS[verdict]);
    let make = || {
        let (config, prefixes) = constants(&settings, CLOCK_PACKET);
        let mut packet = [0; 128];
        packet[..frame.len()].copy_from_slice(&frame);
        Aligned((packet, Model::new(config, &prefixes.iter().collect(), 1)))
    };
    let [mut counted, mut other] = [make(), make()];
    let offer = |packet_and_model: &mut Aligned<([u8; 128], Model)>, now| {
        let (packet, model) = &mut packet_and_model.0;
        decide(model, &packet[..frame.len()], now)
    };
    // The first packet adds the source. The second one is like the third, which is counted.
    let first = [1, 1_000].map(|now| offer(&mut counted, now));
    offer(&mut other, 1);
    clear_cache();
    // The other model has data of its own, so the program's constants and the stack are in the cache, and no more.
    offer(&mut other, 1_000);
    warm_stack();
    let (packet, model) = &mut counted.0;
    counted_packet(model, &packet[..frame.len()], first[1].passes());
}

/// Runs the counted packet.
#[inline(never)]
fn counted_packet(model: &mut Model, frame: &[u8], passes: bool) {
    let reason = decide(model, frame, 2_000);
    assert_eq!(reason.passes(), passes);
}

/// Removes all data from valgrind's cache, which is smaller than what is read here.
fn clear_cache() {
    let large = vec![1_u64; 1 << 16];
    black_box(large.iter().sum::<u64>());
}

/// Brings the stack back into the cache.
#[inline(never)]
fn warm_stack() {
    black_box([1_u8; 1 << 13]);
}
