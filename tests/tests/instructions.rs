//! A packet takes the instructions and cache lines that `docs/bench/instructions.md` records.
//!
//! valgrind counts the policy in user space. An emulated machine counts the program in the kernel: its clock advances by
//! a nanosecond per instruction.

use std::{array, env, fs, os::fd::AsFd, path::Path, process::Command};

use aya::programs::loaded_programs;
use limiter_common::abi::CLOCK_KERNEL;
use limiter_tests::{
    cpus::pin_to,
    engine::constants,
    interpreter::{self, Program},
    need, need_kernel, program_fact,
    scenario::{COUNTED, POLICY, VERDICTS, Verdict, counted},
    test_run::test_run,
};

#[allow(dead_code, reason = "the benchmark uses the rest")]
#[path = "../src/bench/object.rs"]
mod object;
use limiter_kernel::program::object::{ListMaps, Maps, load};
use object::{Object, ObjectConstants};

const PAGE: &str = include_str!("../../docs/bench/instructions.md");
/// Environment variable: if set, figures are recorded, not compared.
const WRITE: &str = "LIMITER_WRITE_DOCS";
const RECORD: &str = "LIMITER_WRITE_DOCS=1 cargo xtask test --kernels counted";

/// A row of the page: figure and scenario, and the number for each verdict.
type Row = (String, [u64; 2]);

/// Compares rows with the page. A number may be smaller and larger by these percentages.
fn compare(rows: &[Row], [smaller, larger]: [u64; 2]) {
    let mut wrong = String::new();
    for (name, now) in rows {
        println!("| {name} | {} | {} |", now[0], now[1]);
        let start = format!("| {name} | ");
        let recorded = PAGE.lines().find_map(|line| line.strip_prefix(&start));
        let mut recorded = recorded.unwrap_or_default().split(" |");
        for (verdict, now) in VERDICTS.iter().zip(now) {
            let number = recorded.next().unwrap_or_default().trim();
            let old: u64 = number.parse().unwrap_or(0);
            let (least, most) = (old * (100 - smaller), old * (100 + larger));
            if !(least..=most).contains(&(now * 100)) {
                wrong += &format!("{name}, {verdict:?}: {now} instead of {old}\n");
            }
        }
    }
    assert!(
        wrong.is_empty() || env::var_os(WRITE).is_some(),
        "{wrong}If this is intended, say so in the commit, and record it: {RECORD}"
    );
}

#[test]
fn policy_takes_the_recorded_instructions_and_cache_lines() {
    if !need::program(
        "policy_takes_the_recorded_instructions_and_cache_lines",
        "valgrind",
    ) {
        return;
    }
    let figures = ["instructions of the policy", "cache lines of the policy"];
    let mut rows = Vec::new();
    for (scenario, (name, _)) in COUNTED.iter().enumerate().take(POLICY) {
        let counted: [_; 2] = array::from_fn(|verdict| valgrind(scenario, verdict));
        let row = |index: usize| {
            (
                format!("{} | {name}", figures[index]),
                counted.map(|values| values[index]),
            )
        };
        rows.extend([0, 1].map(row));
    }
    rows.sort_by_key(|(name, _)| name.starts_with(figures[1]));
    let rustc = Command::new("rustc").arg("--version").output().unwrap();
    let rustc = String::from_utf8(rustc.stdout).unwrap();
    let rustc = format!("| compiler of the policy | {} | | |", rustc.trim());
    println!("{rustc}");
    // Another compiler makes other code.
    let is_known = PAGE.lines().any(|line| line == rustc);
    compare(&rows, if is_known { [5, 2] } else { [50, 25] });
}

/// Counts a packet: instructions, and cache lines of data without the stack.
fn valgrind(scenario: usize, verdict: usize) -> [u64; 2] {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--toggle-collect=count::counted_packet*",
        // Each line that is used is missed once: the cache is empty, and large enough.
        "--cache-sim=yes",
        "--D1=32768,512,64",
    ]);
    valgrind.arg(format!("--callgrind-out-file={}", file.path().display()));
    // The place of data in its cache lines may not depend on the environment, the program's path, or what was allocated
    // before: a large block is the first in its pages.
    let program = Path::new(env!("CARGO_BIN_EXE_count"));
    valgrind.current_dir(program.parent().unwrap());
    valgrind
        .env("MALLOC_MMAP_THRESHOLD_", "1024")
        .arg("./count");
    let output = valgrind.args([scenario, verdict].map(|number| number.to_string()));
    let output = output.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(file.path()).unwrap();
    let value = |event: &str| {
        let line = |start| text.lines().find_map(|line| line.strip_prefix(start));
        let names = line("events: ").unwrap().split(' ');
        let mut named = names.zip(line("summary: ").unwrap().split(' '));
        let value = named.find(|(name, _)| *name == event);
        value.map_or(0, |(_, value)| value.parse().unwrap())
    };
    assert_ne!(value("Ir"), 0, "valgrind finds count::counted_packet");
    [value("Ir"), value("D1mr") + value("D1mw")]
}

/// The interpreter reads the program as this kernel has loaded it.
#[test]
fn interpreted_program_takes_the_recorded_instructions_and_cache_lines() {
    need_kernel!();
    if !need::program(
        "interpreted_program_takes_the_recorded_instructions_and_cache_lines",
        "bpftool",
    ) {
        return;
    }
    // The interpreter reads this processor's values.
    pin_to(0);
    let mut rows = Vec::new();
    for (scenario, (name, _)) in COUNTED.iter().enumerate() {
        let counted = VERDICTS.map(|verdict| interpreted(scenario, verdict));
        let row = |index: usize| {
            let figure = INTERPRETED[index];
            (
                format!("{figure}, Linux {} | {name}", linux()),
                counted.map(|values| values[index]),
            )
        };
        rows.extend([0, 1, 2].map(row));
    }
    rows.sort_by_key(|(name, _)| {
        INTERPRETED
            .iter()
            .position(|figure| name.starts_with(figure))
    });
    let is_known = PAGE.contains(&format!("{}, Linux {}", INTERPRETED[0], linux()));
    if is_known || env::var_os(WRITE).is_some() {
        compare(&rows, [5, 2]);
    }
}

/// The figures of an interpreted packet.
const INTERPRETED: [&str; 3] = [
    "interpreted instructions",
    "lines of data of the program",
    "lines of code of the program",
];

fn interpreted(scenario: usize, verdict: Verdict) -> [u64; 3] {
    let (settings, mut frame) = counted(scenario, verdict);
    let (config, prefixes) = constants(&settings, CLOCK_KERNEL);
    let loaded = load(&config, Maps::New, ListMaps::New(&prefixes), false).unwrap();
    // The first packet adds the source.
    test_run(loaded.fd().unwrap().as_fd(), &mut frame, 0, 100).unwrap();
    let id = program_fact(loaded.fd().unwrap(), "prog_id:").unwrap();
    let counts = interpreter::count(&Program::loaded(id).unwrap(), &frame).unwrap();
    let xdp_pass = 2;
    assert_eq!(counts.verdict == xdp_pass, verdict == Verdict::Passed);
    [
        counts.native,
        counts.data_lines as u64,
        counts.code_lines as u64,
    ]
}

#[test]
fn program_takes_the_recorded_instructions() {
    need_kernel!();
    // The kernel's own work, and a limiter without the table.
    let returns = [("drop_only", [1, 1]), ("pass_only", [1, 1])];
    let hour = 3_600_000_000_000;
    let reference = [
        ("reference", [hour, hour]),
        ("reference", [1, 1_000_000_000]),
    ];
    let mut rows = Vec::new();
    let mut sizes = Vec::new();
    for (name, programs) in [("only returns", returns), ("`reference`", reference)] {
        let counted = array::from_fn(|index| {
            let (program, quota) = programs[index];
            let constants = ObjectConstants {
                quota,
                ..ObjectConstants::none()
            };
            let object = Object::load(program, &constants).unwrap();
            let program = object.program().unwrap();
            instructions(program, 0, VERDICTS[index])
        });
        rows.push((format!("instructions of the program | {name}"), counted));
    }
    let size_here = size_here();
    for (scenario, (name, _)) in COUNTED.iter().enumerate() {
        let counted = VERDICTS.map(|verdict| {
            let (config, prefixes) = constants(&counted(scenario, verdict).0, CLOCK_KERNEL);
            let program = load(&config, Maps::New, ListMaps::New(&prefixes), false).unwrap();
            let program = program.fd().unwrap();
            [instructions(program, scenario, verdict), size(program)]
        });
        let row = |figure: &str, index: usize| {
            (
                format!("{figure} | {name}"),
                counted.map(|values| values[index]),
            )
        };
        rows.push(row("instructions of the program", 0));
        sizes.push(row(&size_here, 1));
    }
    let counts = env::var_os("LIMITER_COUNTS").is_some();
    if !counts {
        rows.clear();
    }
    // Each version of Linux removes other code.
    if counts || env::var_os(WRITE).is_some() || PAGE.contains(&size_here) {
        rows.extend(sizes);
    }
    compare(&rows, [5, 2]);
}

/// The name of the figure with the size of a program in this kernel.
fn size_here() -> String {
    format!("size of the program, Linux {}", linux())
}

/// The version of the kernel, without the last part.
fn linux() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut version = release.split('.');
    let mut part = || version.next().unwrap();
    format!("{}.{}", part(), part())
}

/// Nanoseconds of a packet, after packets that bring the program to its final state. The lowest of several runs has no
/// interrupt in it.
fn instructions(program: impl AsFd, scenario: usize, verdict: Verdict) -> u64 {
    const XDP_PASS: u32 = 2;
    let mut packet = counted(scenario, verdict).1;
    let runs = [100, 1_000, 1_000, 1_000, 1_000].map(|packets| {
        let run = test_run(program.as_fd(), &mut packet, 0, packets).unwrap();
        assert_eq!(run.action == XDP_PASS, verdict == Verdict::Passed);
        run.nanoseconds.into()
    });
    runs.into_iter().skip(1).min().unwrap()
}

/// Instructions of the loaded program, without the code that its constants have switched off.
fn size(program: impl AsFd) -> u64 {
    let id = program_fact(program, "prog_id:");
    let mut all = loaded_programs().flatten();
    let own = all.find(|program| Some(program.id()) == id).unwrap();
    u64::from(own.size_translated().unwrap()) / 8
}
