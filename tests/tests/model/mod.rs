//! Random sequences of commands, packets, time and interface changes agree with a simple model, on the real kernel.
//!
//! The model predicts attachments, settings, effects and refusals of commands, bounds on the packets of a source that
//! pass, counters, pins and loaded objects.
//!
//! A failure prints the steps of its sequence, and its seed. Environment variables:
//!
//! - `LIMITER_MODEL_STEPS`: number of steps (default 1,500; 2,500 with `--thorough`).
//! - `LIMITER_SEED`: seed of the sequences.

mod bucket;
mod check;
mod commands;
mod config;
mod expected;
mod generate;
mod session;
mod world;

use std::{thread, time::Instant};

use fastrand::Rng;
use limiter_tests::{effort::repetitions, need_kernel, random::seed};
use session::{Done, Session};
use world::with_own_mounts;

/// Number of steps of a sequence.
const LENGTH: u32 = 250;
/// Number of sequences that run at the same time.
const WORKERS: usize = 2;
/// Number of all steps, usually and with `--thorough`.
const STEPS: [u32; 2] = [1_500, 2_500];

/// Runs a sequence. Returns its steps by kind. Panics with the steps if one fails.
fn sequence(seed: u64) -> Done {
    let mut rng = Rng::with_seed(seed);
    let mut session = Session::new();
    let mut steps = Vec::new();
    let mut run = || {
        for _ in 0..LENGTH {
            let line = generate::next(&mut rng, &session.model);
            steps.push(line.clone());
            session.step(&line)?;
        }
        session.finish(&mut steps)
    };
    if let Err(why) = run() {
        let steps = steps.join("\n");
        panic!("the sequence of LIMITER_SEED={seed} failed at its last step:\n\n{steps}\n\n{why}");
    }
    session.done
}

#[test]
fn random_command_sequences_agree_with_the_model() {
    need_kernel!();
    let steps = std::env::var("LIMITER_MODEL_STEPS");
    let [usual, thorough] = STEPS;
    let default = || repetitions(usual, thorough);
    let steps = steps.map_or_else(|_| default(), |text| text.parse().unwrap());
    let (sequences, start) = (u64::from(steps.div_ceil(LENGTH)), Instant::now());
    let run = |worker: usize| {
        let numbers = (worker as u64..sequences).step_by(WORKERS);
        let run = || numbers.map(|number| sequence(seed(1).wrapping_add(number)));
        with_own_mounts(|| run().collect::<Vec<Done>>())
    };
    let results: Vec<Vec<Done>> = thread::scope(|scope| {
        let workers: [_; WORKERS] = std::array::from_fn(|worker| scope.spawn(move || run(worker)));
        workers
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .into()
    });
    let [worked, refused] = results
        .iter()
        .flatten()
        .fold([0, 0], |sum, done| [sum[0] + done[0], sum[1] + done[1]]);
    println!(
        "{worked} steps done and {refused} refused in {:.0?}",
        start.elapsed()
    );
    assert_eq!(u64::from(worked + refused), sequences * u64::from(LENGTH));
    assert!(refused * 10 > worked, "too few refused steps");
    assert!(worked > refused, "too few steps with an effect");
}
