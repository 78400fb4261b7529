//! Lists the objects and their sources.

/// The binaries of `limiter-ebpf`, each built once for each byte order. Behind a hyphen, a feature that it is built with.
pub const PROGRAMS: [&str; 4] = ["limiter", "limiter-tc", "learn", "bench"];

pub const ENDIANS: [&str; 2] = ["bpfel", "bpfeb"];

/// The sources of the objects, relative to the root of the repository.
pub const SOURCES: [&str; 6] = [
    "limiter-common/Cargo.toml",
    "limiter-common/src",
    "limiter-ebpf/Cargo.lock",
    "limiter-ebpf/Cargo.toml",
    "limiter-ebpf/benches",
    "limiter-ebpf/src",
];

/// The file name of a program's object for one byte order.
pub fn file(program: &str, endian: &str) -> String {
    format!("{program}.{endian}.o")
}

/// rustc's target name for one byte order.
pub fn target(endian: &str) -> String {
    format!("{endian}-unknown-none")
}

pub fn files() -> Vec<String> {
    let pairs = PROGRAMS
        .iter()
        .flat_map(|program| ENDIANS.map(|endian| file(program, endian)));
    pairs.collect()
}
