//! Lists the objects and their sources.

/// A program of `limiter-ebpf`, built once for each byte order.
pub struct Program {
    /// Name of its objects: `<name>.<endian>.o`.
    pub name: &'static str,
    /// The source: a binary of `limiter-ebpf`.
    pub bin: &'static str,
    /// The enabled features of `limiter-ebpf`, separated by commas.
    pub features: &'static str,
}

const fn program(name: &'static str, bin: &'static str, features: &'static str) -> Program {
    Program {
        name,
        bin,
        features,
    }
}

pub const PROGRAMS: [Program; 4] = [
    program("limiter", "limiter", ""),
    program("limiter-log", "limiter", "log"),
    program("learn", "learn", ""),
    program("bench", "bench", ""),
];

pub const ENDIANS: [&str; 2] = ["bpfel", "bpfeb"];

/// The sources of the objects, relative to the root of the repository.
pub const SOURCES: [&str; 5] = [
    "limiter-common/Cargo.toml",
    "limiter-common/src",
    "limiter-ebpf/Cargo.lock",
    "limiter-ebpf/Cargo.toml",
    "limiter-ebpf/src",
];

impl Program {
    /// The file name of the object for one byte order.
    pub fn file(&self, endian: &str) -> String {
        format!("{}.{endian}.o", self.name)
    }
}

/// rustc's target name for one byte order.
pub fn target(endian: &str) -> String {
    format!("{endian}-unknown-none")
}

pub fn files() -> Vec<String> {
    let pairs = PROGRAMS
        .iter()
        .flat_map(|program| ENDIANS.map(|endian| program.file(endian)));
    pairs.collect()
}
