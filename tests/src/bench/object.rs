//! Loads the benchmark's own programs: sender, reference, and programs without a limit.

use anyhow::{Context as _, Result, anyhow};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned, maps::Map, programs::ProgramFd, programs::Xdp};
use limiter_common::abi::{Constants, SETS_OF_WORD};
use limiter_kernel::{program::raw::Raw, sys::clock};

#[cfg(target_endian = "little")]
const OBJECT: &[u8] = include_bytes_aligned!("../../../limiter-ebpf/prebuilt/bench.bpfel.o");
#[cfg(target_endian = "big")]
const OBJECT: &[u8] = include_bytes_aligned!("../../../limiter-ebpf/prebuilt/bench.bpfeb.o");

/// A loaded program, with private maps.
#[derive(Debug)]
pub struct Object {
    ebpf: Ebpf,
    program: &'static str,
}

/// ObjectConstants of the programs. Each program reads a part of them.
#[derive(Debug)]
pub struct ObjectConstants {
    /// ObjectConstants of limiter.
    pub config: Box<Constants>,
    /// The reference's cost of a packet, and its burst, in nanoseconds.
    pub quota: [u64; 2],
    /// Sources that the reference has room for.
    pub capacity: u32,
}

impl ObjectConstants {
    /// ObjectConstants for programs that read none of them.
    pub fn none() -> Self {
        let mut config = Box::new(Constants::NONE);
        config.sets = 2;
        Self {
            config,
            quota: [1, 1],
            capacity: 1,
        }
    }
}

impl Object {
    pub fn load(program: &'static str, constants: &ObjectConstants) -> Result<Self> {
        let ObjectConstants {
            config,
            quota,
            capacity,
        } = constants;
        let mut constants = Box::new(Raw(**config));
        constants.0.tick = clock::tick()?;
        // The object needs no relocation against the kernel's types. Reading them would take about 50 ms.
        let mut ebpf = EbpfLoader::new()
            .override_global("CONSTANTS", &*constants, false)
            .override_global("QUOTA", quota, false)
            .map_max_entries("SETS", config.sets)
            .map_max_entries("OVERFLOW", config.sets.div_ceil(SETS_OF_WORD))
            .map_max_entries("LRU_IPV4", *capacity)
            .map_max_entries("LRU_IPV6", *capacity)
            .btf(None)
            .load(OBJECT)
            .context("the maps of the benchmark")?;
        let found = ebpf.program_mut(program).ok_or_else(|| missing(program))?;
        let xdp: &mut Xdp = found.try_into()?;
        xdp.load()
            .with_context(|| format!("the kernel refused {program}"))?;
        Ok(Self { ebpf, program })
    }

    pub fn program(&self) -> Result<&ProgramFd> {
        Ok(self.xdp()?.fd()?)
    }

    pub fn xdp(&self) -> Result<&Xdp> {
        let found = self.ebpf.program(self.program);
        Ok(found.ok_or_else(|| missing(self.program))?.try_into()?)
    }

    /// Takes a map out of the object.
    pub fn take_map(&mut self, name: &str) -> Result<Map> {
        self.ebpf.take_map(name).ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> anyhow::Error {
    anyhow!("the prebuilt object lacks {name}: run `cargo xtask build-ebpf`")
}
