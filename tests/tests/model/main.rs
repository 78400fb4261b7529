//! Random sequences of commands, packets, time and interface changes agree with a simple model, on the real kernel.
//!
//! The model predicts attachments, settings, effects and refusals of commands, bounds on the packets of a source that
//! pass, counters, pins and loaded objects.
//!
//! A failing sequence is shortened, and its steps are printed. Environment variables:
//!
//! - `LIMITER_MODEL_STEPS`: number of steps (default 5,000).
//! - `LIMITER_SEED`: seed of the sequences. A failure names the seed of its sequence.
//! - `LIMITER_MODEL_SCRIPT`: a file with the steps to run instead, one on each line.

mod bucket;
mod check;
mod commands;
mod config;
mod generate;
mod model;
mod session;
mod shrink;
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
const STEPS: u32 = 5_000;

/// Minimum number of steps with an effect in [`STEPS`] steps, of each of these kinds.
const WORKED: [(u32, &str); 4] = [
    (1_000, "send"),
    (
        15,
        "attach upgrade set reload reset detach status check sleep",
    ),
    (15, "create delete down up rename away back"),
    (1, "allow deny tier"),
];
/// Minimum number of refused steps.
const REFUSED: [(u32, &str); 2] = [
    (
        10,
        "attach upgrade set reload detach status create rename send",
    ),
    (1, "reset check allow deny tier delete down up away back"),
];

/// A failed sequence.
struct Failure {
    /// The seed; none if the steps are from a script.
    seed: Option<u64>,
    steps: Vec<String>,
    why: String,
}

/// Runs a sequence. Returns its steps by kind, or its failure.
fn sequence(seed: u64) -> Result<Done, Failure> {
    let mut rng = Rng::with_seed(seed);
    let mut session = Session::new();
    let mut steps = Vec::new();
    let mut run = || {
        for _ in 0..LENGTH {
            let line = generate::next(&mut rng, &session.model);
            steps.push(line.clone());
            session.step(&line)?;
        }
        let done = session.done.clone();
        session.finish(&mut steps).map(|()| done)
    };
    let result = run();
    result.map_err(|why| Failure {
        seed: Some(seed),
        steps,
        why,
    })
}

fn fail(failure: Failure) -> ! {
    let Failure { seed, steps, why } = failure;
    let count = steps.len();
    let (steps, why) = with_own_mounts(|| shrink::shrink(steps.clone())).unwrap_or((
        steps,
        format!("{why}\n(it did not fail when it was repeated)"),
    ));
    let seed = seed.map_or(String::new(), |seed| format!(" of LIMITER_SEED={seed}"));
    panic!(
        "the sequence{seed} failed at step {count}; {} steps that fail:\n\n{}\n\n{why}",
        steps.len(),
        steps.join("\n")
    );
}

/// Runs the steps of a file.
fn script(path: &std::ffi::OsStr) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut steps: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(!steps.is_empty(), "no steps in the script");
    if let Some(why) = with_own_mounts(|| shrink::replay(&mut steps)) {
        let seed = None;
        fail(Failure { seed, steps, why });
    }
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
    if let Some(path) = std::env::var_os("LIMITER_MODEL_SCRIPT") {
        return script(&path);
    }
    let steps = std::env::var("LIMITER_MODEL_STEPS").map_or(STEPS, |text| text.parse().unwrap());
    let (sequences, start) = (u64::from(steps.div_ceil(LENGTH)), Instant::now());
    let results: Vec<Result<Vec<Done>, Failure>> = thread::scope(|scope| {
        let run = |worker: usize| {
            let numbers = (worker as u64..sequences).step_by(WORKERS);
            let run = || numbers.map(|number| sequence(seed(1).wrapping_add(number)));
            with_own_mounts(|| run().collect())
        };
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(move || run(worker)))
            .collect();
        let results = workers.into_iter().map(|worker| worker.join().unwrap());
        results.collect()
    });
    let mut done = Done::new();
    for of_worker in results {
        for (kind, [worked, refused]) in of_worker
            .unwrap_or_else(|why| fail(why))
            .into_iter()
            .flatten()
        {
            let sum = done.entry(kind).or_default();
            *sum = [sum[0] + worked, sum[1] + refused];
        }
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
