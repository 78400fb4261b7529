//! All fuzz targets pass on the inputs in `fixtures/fuzz`, and random frames get correct verdicts in the kernel.
//!
//! The inputs are some basic ones, and all that have found a bug. `cargo xtask fuzz` searches for more.

use std::{fs, net::IpAddr, path::Path};

use arbitrary::Unstructured;
use fastrand::Rng;
use ipnet::IpNet;
use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    fuzz::{
        TARGETS,
        packets::{CONFIGURATIONS_LENGTH, Pool, Tally, frame, offer},
    },
    need_kernel,
    random::seed,
};
use limiter_user::{config::key::address, plan::capture::Capture};

/// Runs all inputs of the targets with this need of the kernel.
fn all(kernel: bool) {
    for target in TARGETS.into_iter().filter(|target| target.kernel == kernel) {
        let inputs = target.inputs();
        assert!(
            inputs.len() >= 4,
            "{}: {} inputs",
            target.name,
            inputs.len()
        );
        for path in inputs {
            println!("{}", path.display());
            (target.run)(&fs::read(&path).unwrap());
        }
    }
}

#[test]
fn fuzz_inputs_of_text_and_files_pass() {
    all(false);
}

#[test]
fn fuzz_inputs_of_the_kernel_pass() {
    need_kernel!();
    all(true);
}

/// Short version of `cargo xtask fuzz`.
#[test]
fn damaged_fuzz_inputs_pass() {
    let seed = seed(fastrand::u64(..));
    println!("LIMITER_SEED={seed:#x}");
    let mut rng = Rng::with_seed(seed);
    for target in TARGETS.into_iter().filter(|target| !target.kernel) {
        let inputs = target.inputs();
        let inputs: Vec<_> = inputs.iter().map(|path| fs::read(path).unwrap()).collect();
        // A block with a wrong length costs up to 16 MiB before the error is found.
        let rounds = if target.name == "capture" { 2 } else { 10 };
        for input in &inputs {
            for _ in 0..rounds {
                let mut torn = input.clone();
                for _ in 0..rng.usize(1..4) {
                    tear(&mut rng, &mut torn, &inputs);
                }
                (target.run)(&torn);
            }
        }
    }
}

fn tear(rng: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = rng.usize(0..=bytes.len());
    match rng.u8(0..5) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, rng.u8(..)),
        2 => {
            let end = (at + rng.usize(0..16)).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let other = &others[rng.usize(0..others.len())];
            bytes.truncate(at);
            bytes.extend(&other[at.min(other.len())..]);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.u8(..);
            }
        }
    }
}

/// Half of the frames have a fixed seed, and half have a new one.
#[test]
fn kernel_and_another_parser_agree_on_random_frames() {
    need_kernel!();
    const FRAMES: u32 = 4_000;
    let mut tally = Tally::default();
    for seed in [0xf4a3e, seed(fastrand::u64(..))] {
        // The printed seed repeats the frames of a failure.
        println!("LIMITER_SEED={seed:#x}");
        let mut rng = Rng::with_seed(seed);
        let mut bytes = [0; 256];
        for _ in 0..FRAMES {
            rng.fill(&mut bytes);
            let frame = frame(&mut Unstructured::new(&bytes), &Pool::default()).unwrap();
            offer(rng.usize(0..CONFIGURATIONS_LENGTH), &frame, &mut tally);
        }
    }
    println!("{tally:?}");
    for reason in [
        Reason::Admitted,
        Reason::NotIp,
        Reason::WouldDrop,
        Reason::Limit,
        Reason::Deny,
        Reason::Malformed,
        Reason::MalformedPassed,
        Reason::MalformedWouldDrop,
        Reason::Allowed,
        Reason::Unlimited,
    ] {
        let seen = tally[reason as usize];
        assert!(seen > 20, "{reason:?} came up {seen} times");
    }
}

/// Another program made the frames. The verdicts were written by hand.
#[test]
fn odd_frames_get_their_expected_verdicts() {
    need_kernel!();
    const LIMITS: [&str; 4] = ["dns", "syn", "ports", "fragments"];
    const OF_LIMITS: usize = 4;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/frames");
    let written = fs::read_to_string(folder.join("odd.txt")).unwrap();
    let mut written = written.lines();
    let mut tally = Tally::default();
    for packet in Capture::open(&folder.join("odd.pcap")).unwrap() {
        let bytes = packet.unwrap().frame.bytes;
        let line = written.next().unwrap();
        for configuration in 0..CONFIGURATIONS_LENGTH {
            offer(configuration, &bytes, &mut tally);
        }
        let (reason, buckets) = offer(OF_LIMITS, &bytes, &mut tally);
        let wanted = line.split_once(": ").unwrap().1;
        let (source, limits) = match wanted {
            "not-ip" | "malformed" => {
                let right = [("not-ip", Reason::NotIp), ("malformed", Reason::Malformed)];
                assert!(right.contains(&(wanted, reason)), "{line}: {reason:?}");
                assert_eq!(buckets, [], "{line}");
                continue;
            }
            held => held.split_once(' ').unwrap(),
        };
        assert_eq!(reason, Reason::Admitted, "{line}");
        let charged: Vec<_> = buckets
            .iter()
            .map(|key| LIMITS[key.slot() as usize])
            .collect();
        assert_eq!(charged.join(","), limits, "{line}");
        let source: IpAddr = source.parse().unwrap();
        for key in buckets {
            let bits = [(32, 64), (24, 48), (32, 64), (16, 32)][key.slot() as usize];
            let bits = if source.is_ipv4() { bits.0 } else { bits.1 };
            let network = IpNet::new(source, bits).unwrap().network();
            assert_eq!(key.address(), address(network).words, "{line}");
        }
    }
    assert_eq!(written.next(), None, "a line for each frame");
}
