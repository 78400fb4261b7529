//! Random sequences of commands, packets, time and interface changes agree with a simple model, on the real kernel.
//!
//! The model predicts attachments, settings, effects and refusals of commands, bounds on the packets of a source that
//! pass, counters, pins and loaded objects.
//!
//! A failure prints the steps of its sequence, and its seed. Environment variables:
//!
//! - `LIMITER_MODEL_STEPS`: number of steps (default 2,500).
//! - `LIMITER_SEED`: seed of the sequences.

mod bucket;
mod check;
mod commands;
mod config;
mod generate;
mod model;
mod session;
mod world;

use std::{thread, time::Instant};

use fastrand::Rng;
use limiter_tests::{need_kernel, random::seed};
use session::{Done, Session};
use world::with_own_mounts;

/// Number of steps of a sequence.
const LENGTH: u32 = 250;
/// Number of sequences that run at the same time.
const WORKERS: usize = 2;
const STEPS: u32 = 2_500;

/// Minimum number of steps with an effect in [`STEPS`] steps, of each of these kinds.
const WORKED: [(u32, &str); 3] = [
    (500, "send"),
    (
        7,
        "attach upgrade set reload reset detach status sleep create rename",
    ),
    (1, "allow deny tier delete"),
];
/// Minimum number of refused steps.
const REFUSED: [(u32, &str); 2] = [
    (5, "attach upgrade set reload detach status create rename"),
    (1, "reset allow deny tier"),
];

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

/// Panics if there were too few steps of a kind. `outcome`: 0 for steps with an effect, 1 for refused ones.
fn expect_variety(done: &Done, outcome: usize, floors: &[(u32, &str)]) {
    for (floor, kinds) in floors {
        for kind in kinds.split(' ') {
            let of_kind = done
                .iter()
                .filter(|(of, _)| of.split(' ').next() == Some(kind));
            let found: u32 = of_kind.map(|(_, done)| done[outcome]).sum();
            assert!(found >= *floor, "{kind}: {found} are too few: {done:?}");
        }
    }
}

#[test]
fn random_command_sequences_agree_with_the_model() {
    need_kernel!();
    let steps = std::env::var("LIMITER_MODEL_STEPS").map_or(STEPS, |text| text.parse().unwrap());
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
    let mut done = Done::new();
    for (kind, [worked, refused]) in results.into_iter().flatten().flatten() {
        let sum = done.entry(kind).or_default();
        *sum = [sum[0] + worked, sum[1] + refused];
    }
    let total: u32 = done.values().flatten().sum();
    println!(
        "{total} steps in {:.0?}, done and refused: {done:#?}",
        start.elapsed()
    );
    assert_eq!(u64::from(total), sequences * u64::from(LENGTH));
    if steps >= STEPS {
        expect_variety(&done, 0, &WORKED);
        expect_variety(&done, 1, &REFUSED);
    }
}
