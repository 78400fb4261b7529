//! The compiled programs load with other tools, and have no code for features that are not configured.

use std::{collections::BTreeMap, fs, os::fd::AsRawFd, path::PathBuf, process::Command};

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
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

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

/// Bytes of the stack that a function uses, and the functions that it calls.
#[derive(Debug, Default)]
struct Function {
    stack: u32,
    calls: Vec<String>,
}

/// One instruction: code, destination, source, offset, immediate operand.
fn instruction(bytes: &[u8]) -> (u8, u8, u8, i16, i32) {
    let (destination, source) = (bytes[1] & 15, bytes[1] >> 4);
    let offset = i16::from_le_bytes([bytes[2], bytes[3]]);
    let immediate = i32::from_le_bytes(bytes[4..8].try_into().unwrap());
    (bytes[0], destination, source, offset, immediate)
}

/// The functions of an object of little-endian programs.
fn functions(object: &[u8]) -> BTreeMap<String, Function> {
    const FRAME: u8 = 10;
    let file = object::File::parse(object).unwrap();
    let symbols = || {
        let of_code = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text;
        file.symbols().filter(of_code)
    };
    let mut found = BTreeMap::new();
    for symbol in symbols() {
        let section = file.section_by_index(symbol.section_index().unwrap());
        let section = section.unwrap();
        let (first, size) = (symbol.address(), symbol.size());
        let code = &section.data().unwrap()[first as usize..(first + size) as usize];
        let mut function = Function::default();
        let mut copies = 0_u16;
        for bytes in code.chunks_exact(8) {
            let (code, destination, source, offset, immediate) = instruction(bytes);
            let copy = 1_u16 << destination;
            let lowest = match code & 7 {
                1 if source == FRAME => offset.into(),
                2 | 3 if destination == FRAME => offset.into(),
                7 if code == 0x07 && copies & copy != 0 => immediate,
                _ => 0,
            };
            function.stack = function.stack.max(lowest.min(0).unsigned_abs());
            copies &= !copy;
            if code == 0xbf && source == FRAME {
                copies |= copy;
            }
        }
        for (place, relocation) in section.relocations() {
            let RelocationTarget::Symbol(target) = relocation.target() else {
                continue;
            };
            let inside = place.checked_sub(first).filter(|place| *place < size);
            let Some(place) = inside else { continue };
            let (code, _, source, _, immediate) = instruction(&code[place as usize..]);
            if code != 0x85 || source != 1 {
                continue;
            }
            let target = file.symbol_by_index(target).unwrap();
            // A function of the same object may be given by its place in its section.
            let named = match target.kind() {
                SymbolKind::Section => symbols().find(|symbol| {
                    symbol.section_index() == target.section_index()
                        && symbol.address() == u64::try_from((immediate + 1) * 8).unwrap()
                }),
                _ => Some(target),
            };
            function
                .calls
                .push(named.unwrap().name().unwrap().to_owned());
        }
        found.insert(symbol.name().unwrap().to_owned(), function);
    }
    found
}

/// The chain of calls from a function that uses most of the stack, as Linux 6.1 sums it.
fn deepest(functions: &BTreeMap<String, Function>, name: &str) -> (u32, Vec<String>) {
    let Some(function) = functions.get(name) else {
        return (0, Vec::new());
    };
    let calls = function
        .calls
        .iter()
        .map(|called| deepest(functions, called));
    let (below, mut chain) = calls.max().unwrap_or_default();
    chain.insert(0, format!("{name} {}", function.stack));
    (function.stack.max(1).next_multiple_of(32) + below, chain)
}

/// Linux 6.1 sums the stack of all functions in a chain of calls, each rounded up to 32 bytes, and refuses more than 512.
#[test]
fn every_chain_of_calls_fits_the_stack() {
    for name in ["limiter.bpfel.o", "limiter-tc.bpfel.o", "learn.bpfel.o"] {
        let functions = functions(&fs::read(prebuilt("limiter").with_file_name(name)).unwrap());
        let deepest = functions
            .keys()
            .map(|function| deepest(&functions, function));
        let (bytes, chain) = deepest.max().unwrap();
        assert!(
            (300..=512).contains(&bytes),
            "{name}: {bytes} bytes: {chain:?}"
        );
    }
}
