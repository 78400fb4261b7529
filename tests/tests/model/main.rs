//! Random sequences of commands, packets, time and interface changes agree with a simple model, on the real kernel.
//!
//! The model predicts attachments, settings, effects and refusals of commands, bounds on the packets of a source that
//! pass, counters, pins and loaded objects.
//!
//! A failing sequence is shortened and printed as a script. Environment variables:
//!
//! - `LIMITER_MODEL_STEPS`: number of steps (default 10,000).
//! - `LIMITER_SEED`: seed of the sequences. A failure names the seed of its sequence.
//! - `LIMITER_MODEL_SCRIPT`: a file with the steps to run instead.

mod bucket;
mod check;
mod commands;
mod config;
mod generate;
mod model;
mod session;
mod shrink;
mod world;

use std::{collections::BTreeMap, sync::Mutex, thread, time::Instant};

use fastrand::Rng;
use limiter_tests::{need_kernel, random::seed};
use session::Session;
use world::with_own_mounts;

/// Number of steps of a sequence.
const LENGTH: u32 = 250;
/// Number of sequences that run at the same time.
const WORKERS: usize = 2;
const STEPS: u32 = 10_000;
/// Minimum number of steps of each kind in 10,000: with an effect, and refused.
const FLOORS: [(&str, [u32; 2]); 28] = [
    ("attach", [80, 100]),
    ("upgrade", [30, 30]),
    ("set", [50, 50]),
    ("reload", [50, 40]),
    ("allow add", [20, 10]),
    ("allow remove", [5, 0]),
    ("allow replace", [3, 0]),
    ("allow list", [10, 5]),
    ("deny add", [20, 10]),
    ("deny remove", [5, 0]),
    ("deny replace", [3, 0]),
    ("deny list", [10, 5]),
    ("tier add", [5, 5]),
    ("tier remove", [1, 0]),
    ("tier replace", [1, 0]),
    ("reset", [50, 10]),
    ("detach", [40, 20]),
    ("status", [40, 30]),
    ("check", [30, 10]),
    ("send", [2_000, 500]),
    ("sleep", [400, 0]),
    ("create", [100, 50]),
    ("delete", [40, 5]),
    ("down", [50, 5]),
    ("up", [100, 10]),
    ("rename", [60, 40]),
    ("away", [60, 10]),
    ("back", [100, 10]),
];

/// The steps of all sequences, and the first failed sequence.
#[derive(Default)]
struct Result {
    begun: u32,
    done: BTreeMap<String, [u32; 2]>,
    failure: Option<Failure>,
}

struct Failure {
    /// The seed; none if the steps are from a script.
    seed: Option<u64>,
    steps: Vec<String>,
    why: String,
}

/// Runs a sequence. Returns its steps by kind, or its failure.
fn sequence(seed: u64) -> std::result::Result<BTreeMap<String, [u32; 2]>, Failure> {
    let mut rng = Rng::with_seed(seed);
    let mut session = Session::new();
    let mut steps = Vec::new();
    for _ in 0..LENGTH {
        let line = generate::next(&mut rng, &session.model);
        steps.push(line.clone());
        if let Err(why) = session.step(&line) {
            return Err(Failure {
                seed: Some(seed),
                steps,
                why,
            });
        }
    }
    let done = session.done.clone();
    match session.finish(&mut steps) {
        Ok(()) => Ok(done),
        Err(why) => Err(Failure {
            seed: Some(seed),
            steps,
            why,
        }),
    }
}

fn work(result: &Mutex<Result>, sequences: u32, first: u64) {
    loop {
        let number = {
            let mut result = result.lock().unwrap();
            if result.begun == sequences || result.failure.is_some() {
                return;
            }
            result.begun += 1;
            result.begun - 1
        };
        let outcome = sequence(first.wrapping_add(number.into()));
        let mut result = result.lock().unwrap();
        match outcome {
            Ok(done) => {
                for (kind, [worked, refused]) in done {
                    let sum = result.done.entry(kind).or_default();
                    *sum = [sum[0] + worked, sum[1] + refused];
                }
            }
            Err(failure) => result.failure = Some(failure),
        }
    }
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
        "the sequence{seed} failed at step {count}; {} steps that fail:\n\n{}\n{why}",
        steps.len(),
        shrink::script(&steps)
    );
}

#[test]
fn random_command_sequences_agree_with_the_model() {
    need_kernel!();
    if let Some(path) = std::env::var_os("LIMITER_MODEL_SCRIPT") {
        let mut steps = shrink::steps(&std::fs::read_to_string(path).unwrap());
        assert!(!steps.is_empty(), "no steps in the script");
        if let Some(why) = with_own_mounts(|| shrink::replay(&mut steps)) {
            fail(Failure {
                seed: None,
                steps,
                why,
            });
        }
        return;
    }
    let steps = std::env::var("LIMITER_MODEL_STEPS").map_or(STEPS, |text| text.parse().unwrap());
    let sequences = steps.div_ceil(LENGTH);
    let (result, start) = (Mutex::default(), Instant::now());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| with_own_mounts(|| work(&result, sequences, seed(1))));
        }
    });
    let Result { done, failure, .. } = result.into_inner().unwrap();
    if let Some(failure) = failure {
        fail(failure);
    }
    let total: u32 = done.values().flatten().sum();
    println!(
        "{total} steps in {:.0?}; of each kind, done and refused:",
        start.elapsed()
    );
    for (kind, [worked, refused]) in &done {
        println!("{kind:>14} {worked:>6} {refused:>6}");
    }
    assert_eq!(total, sequences * LENGTH);
    for (kind, floors) in FLOORS {
        let found = done.get(kind).copied().unwrap_or_default();
        for (found, floor) in found.into_iter().zip(floors) {
            assert!(
                u64::from(found) * u64::from(STEPS)
                    >= u64::from(floor) * u64::from(total.min(STEPS)),
                "{kind}: {found} are too few"
            );
        }
    }
}

#[test]
fn model_script_reads_back() {
    let steps = [
        "create 0 lan 10",
        "limiter attach lan --rate 3/h",
        "send 0 10.0.0.1 2",
    ];
    let steps = steps.map(str::to_owned).to_vec();
    assert_eq!(shrink::steps(&shrink::script(&steps)), steps);
    assert_eq!(shrink::steps(&steps.join("\n")), steps);
}
