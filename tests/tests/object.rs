//! The compiled programs load with other tools, and have no code for features that are not configured.

use std::{fs, os::fd::AsRawFd, path::PathBuf, process::Command};

use aya::programs::loaded_programs;
use limiter_common::{
    abi::{CLOCK_KERNEL, Constants, rules::NewSourceQuota},
    arithmetic::quota::SHARED,
};
use limiter_kernel::sys::{requirements, requirements::KernelVersion};
use limiter_tests::{
    engine::{Kernel, Limit},
    need_kernel, settings,
};

const OBJECTS: [&str; 3] = ["limiter", "learn", "bench"];

fn prebuilt(name: &str) -> PathBuf {
    let endian = if cfg!(target_endian = "little") {
        "bpfel"
    } else {
        "bpfeb"
    };
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../limiter-ebpf/prebuilt/{name}.{endian}.o"))
}

/// bpftool uses libbpf, which is stricter than aya: it requires BTF for every map, and no code outside programs.
#[test]
fn bpftool_loads_every_object() {
    need_kernel!();
    if !limiter_tests::need::tool("bpftool_loads_every_object", "bpftool") {
        return;
    }
    for name in OBJECTS {
        let folder = format!("/sys/fs/bpf/limiter-test-{name}-{}", std::process::id());
        let output = Command::new("bpftool")
            .args(["prog", "loadall"])
            .arg(prebuilt(name))
            .arg(&folder)
            .output()
            .unwrap_or_else(|error| {
                panic!("bpftool is needed (Debian's package bpftool): {error}")
            });
        let loaded = fs::read_dir(&folder).map_or(0, Iterator::count);
        let _ = fs::remove_dir_all(&folder);
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(loaded >= 2, "{name}: {loaded} programs");
    }
}

/// The object also contains no path of the build machine.
#[test]
fn objects_are_stripped_and_contain_btf() {
    for name in OBJECTS {
        for endian in ["bpfel", "bpfeb"] {
            let path = prebuilt(name).with_file_name(format!("{name}.{endian}.o"));
            let object = fs::read(&path).unwrap();
            let has = |text: &str| {
                object
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            };
            assert!(has(".BTF.ext") && has("Dual MIT/GPL"), "{path:?}");
            assert!(!has(".debug_info"), "{path:?} is not stripped");
            for local in ["/root", "/home", "/.cargo", "registry/src"] {
                assert!(!has(local), "{path:?} names {local}");
            }
        }
    }
}

/// Maximum number of instructions for one limit, without shares of the table: 5,137 in fact, and a thousand more with the
/// code for shares.
const PLAIN_MAX: u32 = 5_200;

/// The verifier removes the code.
#[test]
fn features_not_configured_are_removed_from_the_program() {
    need_kernel!();
    let limit = Limit::new("5/s", "10");
    let mut baseline = limit.config();
    baseline.clock = CLOCK_KERNEL;
    baseline.new_sources = NewSourceQuota {
        lease: 1,
        ..NewSourceQuota::default()
    };
    let without = instructions(&Kernel::load(&limit, &baseline, false));
    let changed = |change: fn(&mut Constants)| {
        let mut config = baseline.clone();
        change(&mut config);
        instructions(&Kernel::load(&limit, &config, false))
    };
    let features: [(&str, u32); 3] = [
        ("shares", changed(|config| config.room = 64)),
        ("established", changed(|config| config.established = 1)),
        ("new sources", changed(|config| config.new_sources.cost = 1)),
    ];
    // Each exit of a program takes a few instructions.
    let ends = [
        ("trial", changed(|config| config.deadline = 1)),
        ("chain", changed(|config| config.chained = 1)),
    ];
    println!("{without} instructions without, {features:?}, {ends:?}");
    for (end, found) in ends {
        assert!(without + 4 <= found, "{end}: {found}, without it {without}");
    }
    // Linux before 6.8 verifies and keeps functions that are not called.
    let functions = requirements::version().unwrap() >= Some(KernelVersion(6, 8));
    // The code of each feature is larger than this. A leftover branch is smaller.
    let least = if functions { 100 } else { 5 };
    if functions {
        assert!(without < PLAIN_MAX, "{without} instructions");
    }
    for (feature, found) in features {
        assert!(
            without + least < found,
            "{feature}: {found}, without it {without}"
        );
    }
}

#[test]
fn conditions_and_keys_not_configured_are_removed_from_the_program() {
    need_kernel!();
    let counted = |line: &str| {
        let file = format!("[[limit]]\nname = \"one\"\nrate = \"5/s\"\n{line}\n");
        instructions(&Kernel::of(&settings(&file)))
    };
    let without = counted("match = { protocol = \"udp\" }");
    let udp = "match = { protocol = \"udp\" }\nkey =";
    let conditions = [
        "match = { protocol = \"udp\", ttl = 64 }",
        "match = { protocol = \"udp\", destination = \"192.0.2.1\" }",
        "match = { protocol = \"udp\", payload = { bytes = \"00\" } }",
        "match = { protocol = \"udp\", not = { source_port = 53 } }",
        "match = { protocol = \"udp\", payload_length = 0 }",
        "match = { protocol = \"udp\", established = true }",
        &format!("{udp} \"destination\""),
        &format!("{udp} \"source + destination\""),
        "match = { protocol = \"udp\" }\nhold = \"10m\"",
        "match = { protocol = \"tcp\" }\nconnections = 5",
    ];
    for condition in conditions {
        let count = counted(condition);
        println!("{without} instructions, {count} with {condition}");
        assert!(
            without + 10 < count,
            "{condition}: {count}, without {without}"
        );
    }
}

/// The flag of a fleet's limit is a bit of a constant, which the verifier folds. The larger constant takes two
/// instructions instead of one, wherever a packet may be refused.
#[test]
fn fleet_scope_adds_almost_no_instructions() {
    need_kernel!();
    const MORE: u32 = 15;
    let limit = Limit::new("5/s", "10");
    let flagged = |flags: u32| {
        let mut config = limit.config();
        config.clock = CLOCK_KERNEL;
        config.limits[0].quota.flags |= flags;
        instructions(&Kernel::load(&limit, &config, false))
    };
    let (alone, shared) = (flagged(0), flagged(SHARED));
    println!("{alone} instructions alone, {shared} shared");
    assert!(shared <= alone + MORE, "{shared}, alone {alone}");
}

/// Number of instructions that the kernel keeps of a loaded program.
fn instructions(kernel: &Kernel) -> u32 {
    let fd = kernel.program.fd().unwrap().as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let id = info.lines().find_map(|line| line.strip_prefix("prog_id:"));
    let id: u32 = id.unwrap().trim().parse().unwrap();
    let mut programs = loaded_programs().filter_map(Result::ok);
    let program = programs.find(|program| program.id() == id).unwrap();
    program.size_translated().unwrap() / 8
}
