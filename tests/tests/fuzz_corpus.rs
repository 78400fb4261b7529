//! All fuzz targets pass on the inputs in `fixtures/fuzz`, and odd frames get correct verdicts in the kernel.
//!
//! The inputs are some basic ones, and all that have found a bug. `cargo xtask fuzz` searches for more.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use ipnet::IpNet;
use limiter_common::{abi::CLOCK_PACKET, policy::verdict::Reason};
use limiter_config::{file, key::address};
use limiter_tests::{
    engine::{Kernel, Limit, constants},
    fuzz::{TARGETS, Target},
    need_kernel,
    random::seed,
    settings,
};
use limiter_user::plan::{
    capture::Capture,
    replay::{Compiled, decide},
};

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
        let rounds = if target.name == "capture" { 2 } else { 50 };
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
    let position = rng.usize(0..=bytes.len());
    match rng.u8(0..5) {
        0 => bytes.truncate(position),
        1 => bytes.insert(position, rng.u8(..)),
        2 => {
            let end = (position + rng.usize(0..16)).min(bytes.len());
            bytes.drain(position..end);
        }
        3 => {
            let other = &others[rng.usize(0..others.len())];
            bytes.truncate(position);
            bytes.extend(&other[position.min(other.len())..]);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(position) {
                *byte = rng.u8(..);
            }
        }
    }
}

/// The inputs that are whole files show that all settings can be read.
#[test]
fn whole_configuration_files_are_accepted() {
    let inputs = Target::named("configuration").inputs().into_iter();
    let is_whole = |path: &PathBuf| path.to_str().unwrap().contains("/whole-");
    let whole: Vec<_> = inputs.filter(is_whole).collect();
    assert_eq!(whole.len(), 4);
    for path in whole {
        let read = file::parse(&fs::read_to_string(&path).unwrap(), ".".as_ref());
        assert!(read.is_ok(), "{}: {read:?}", path.display());
    }
}

/// Another program made the frames. The verdicts were written by hand. They hold for the programs with and without
/// frames in several buffers, and for the policy in user space.
#[test]
fn odd_frames_get_their_expected_verdicts() {
    need_kernel!();
    const NOW: u64 = 1_000_000_000_000;
    const KEYS: [(&str, u8, u8); 4] = [
        ("dns", 32, 64),
        ("syn", 24, 48),
        ("ports", 32, 64),
        ("fragments", 16, 32),
    ];
    let settings = settings(
        r#"
        max_sources = 256
        new_sources = "none"
        [[limit]]
        name = "dns"
        match = { protocol = "udp", destination_port = [53, "5300-5353"] }
        rate = "1/s"
        [[limit]]
        name = "syn"
        match = { protocol = "tcp", tcp_flags = "syn" }
        key = "/24,/48"
        rate = "1/s"
        [[limit]]
        name = "ports"
        match = { fragments = false }
        key = "/32,/64,destination_port"
        rate = "1/s"
        [[limit]]
        name = "fragments"
        match = { fragments = true }
        key = "/16,/32"
        rate = "1/s"
        "#,
    );
    let config = constants(&settings, CLOCK_PACKET).0;
    let load = |frags| Kernel::load(&Limit::new("1/s", "1"), &config, frags);
    let kernels = [false, true].map(load);
    let compiled = Compiled::new(&settings).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/frames");
    let written = fs::read_to_string(folder.join("odd.txt")).unwrap();
    let mut written = written.lines();
    for packet in Capture::open(&folder.join("odd.pcap")).unwrap() {
        let frame = packet.frame;
        let line = written.next().unwrap();
        let reason = decide(&mut compiled.model(NOW), &frame, NOW);
        let [charged, others] = kernels.each_ref().map(|kernel| {
            assert_eq!(kernel.offer(&frame.bytes, NOW), reason, "{line}");
            let mut charged: Vec<_> = kernel.tables.sets.sources().map(|(key, _)| key).collect();
            charged.sort_by_key(|key| key.slot());
            let _ = kernel.tables.sets.forget_where(|_| true);
            charged
        });
        assert_eq!(charged, others, "{line}");
        let (_, wanted) = line.split_once(": ").unwrap();
        let Some((source, limits)) = wanted.split_once(' ') else {
            assert_eq!(reason.name().replace('_', "-"), wanted, "{line}");
            assert_eq!(charged, [], "{line}");
            continue;
        };
        assert_eq!(reason, Reason::Admitted, "{line}");
        let keys = charged.iter().map(|key| KEYS[key.slot() as usize]);
        let names: Vec<_> = keys.clone().map(|(name, ..)| name).collect();
        assert_eq!(names.join(","), limits, "{line}");
        let source: IpAddr = source.parse().unwrap();
        for (key, (_, ipv4, ipv6)) in charged.iter().zip(keys) {
            let bits = if source.is_ipv4() { ipv4 } else { ipv6 };
            let network = IpNet::new(source, bits).unwrap().network();
            assert_eq!(key.address(), address(network).words, "{line}");
        }
    }
    assert_eq!(written.next(), None, "a line for each frame");
}
