//! The processors for which programs are built and kernels are booted.

use std::{env::consts::ARCH, process::Command};

use anyhow::{Context, Result};

use crate::debian;

const ALL: &str = include_str!("processors.txt");

/// A kind of processor: a line of processors.txt. The processors of x86-64 have no 16-byte compare-and-swap: with
/// it, Linux 6.12 was seen to die in its allocator, with flags that no processor has (QEMU 7.2). They lack `erms`
/// and `fsrm`: QEMU makes the fast copies of strings byte by byte. The processors of arm64 sign pointers by a fast function instead of the architecture's.
#[derive(Clone, Copy)]
pub struct Architecture {
    /// Name in Rust, rpm, GNU's compilers and the emulator.
    pub name: &'static str,
    /// Name in Debian and in container images.
    pub debian: &'static str,
    /// Rust's target.
    pub target: &'static str,
    /// Debian's packages of the emulator, its options, and the kernel's parameters.
    pub emulator: &'static str,
    pub machine: &'static str,
    pub parameters: &'static str,
}

impl Architecture {
    /// The processor with this name; without one, this machine's.
    pub fn of(name: Option<&str>) -> Result<Self> {
        let name = name.unwrap_or(ARCH);
        let mut lines = ALL.lines().map(|line| line.split(';').collect::<Vec<_>>());
        let found = lines.find(|fields| fields[0] == name);
        let found = found.and_then(|fields| fields.try_into().ok());
        let [name, debian, target, emulator, machine, parameters] =
            found.with_context(|| format!("unknown processor {name}"))?;
        Ok(Self {
            name,
            debian,
            target,
            emulator,
            machine,
            parameters,
        })
    }

    pub fn is_native(&self) -> bool {
        self.name == ARCH
    }

    /// The name of its libraries' folder, and the start of the names of its tools.
    pub fn gnu(&self) -> String {
        format!("{}-linux-gnu", self.name)
    }

    /// Makes `cargo` build for this processor, which is not this machine's.
    pub fn cross(&self, cargo: &mut Command) -> Result<()> {
        let (gnu, target) = (self.gnu(), self.target.replace('-', "_"));
        let packages = format!("gcc-{gnu} libc6-dev-{}-cross", self.debian);
        debian::ensure(&packages, "building for another processor")?;
        let compiler = format!("{gnu}-gcc");
        cargo.env(format!("CC_{target}"), &compiler);
        let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase());
        cargo.env(linker, compiler);
        cargo.args(["--target", self.target]);
        Ok(())
    }
}
