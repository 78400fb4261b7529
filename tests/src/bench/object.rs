//! Loads the compiled programs: the unchanged limiter, and the programs of the benchmark.

use anyhow::{Context as _, Result, anyhow};
use aya::{
    Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{Map, PerCpuArray},
    programs::{ProgramError, ProgramFd, Xdp},
};
use limiter_common::{
    abi::{
        Config, SETS_OF_WORD,
        counters::{Counters, FAST, FULL},
    },
    policy::verdict::Reason,
};
use limiter_user::kernel::{program::raw::Raw, sys::clock};

/// The object to load.
#[derive(Clone, Copy, Debug)]
pub enum Code {
    /// The object that `attach` loads.
    Limiter,
    /// The benchmark's object: driver, steps, sender, reference.
    Bench,
}

#[cfg(target_endian = "little")]
macro_rules! prebuilt {
    ($name:literal) => {
        include_bytes_aligned!(concat!(
            "../../../limiter-ebpf/prebuilt/",
            $name,
            ".bpfel.o"
        ))
    };
}
#[cfg(target_endian = "big")]
macro_rules! prebuilt {
    ($name:literal) => {
        include_bytes_aligned!(concat!(
            "../../../limiter-ebpf/prebuilt/",
            $name,
            ".bpfeb.o"
        ))
    };
}

impl Code {
    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Limiter => prebuilt!("limiter"),
            Self::Bench => prebuilt!("bench"),
        }
    }
}

/// Loaded programs of one object, with private maps.
#[derive(Debug)]
pub struct Object(Ebpf);

impl Object {
    /// Loads `programs` with the constants of `config`.
    pub fn load(code: Code, config: &Config, programs: &[&str]) -> Result<Self> {
        let constants = Raw(Config {
            tick: clock::tick()?,
            ..*config
        });
        let mut loader = EbpfLoader::new();
        loader
            .override_global("CONFIG", &constants, false)
            .map_max_entries("SETS", config.sets)
            .map_max_entries("OVERFLOW", config.sets.div_ceil(SETS_OF_WORD));
        Self::finish(&mut loader, code, programs)
    }

    /// Loads `programs` of [`Code::Bench`] that send or serve as reference, with the reference's cost and burst in
    /// nanoseconds, and room for `capacity` sources.
    pub fn load_wire(quota: [u64; 2], capacity: u32, programs: &[&str]) -> Result<Self> {
        let mut loader = EbpfLoader::new();
        loader
            .override_global("QUOTA", &quota, true)
            .map_max_entries("LRU_IPV4", capacity)
            .map_max_entries("LRU_IPV6", capacity);
        Self::finish(&mut loader, Code::Bench, programs)
    }

    fn finish(loader: &mut EbpfLoader<'_>, code: Code, programs: &[&str]) -> Result<Self> {
        // The object needs no relocation against the kernel's types. Reading them would take about 50 ms.
        let mut object = loader
            .btf(None)
            .load(code.bytes())
            .context("the maps of the benchmark")?;
        for name in programs {
            let program = object.program_mut(name).ok_or_else(|| missing(name))?;
            let program: &mut Xdp = program.try_into()?;
            program.load().map_err(|error| refused(name, &error))?;
        }
        Ok(Self(object))
    }

    pub fn program(&self, name: &str) -> Result<&ProgramFd> {
        let program = self.0.program(name).ok_or_else(|| missing(name))?;
        let program: &Xdp = program.try_into()?;
        Ok(program.fd()?)
    }

    /// Takes a map out of the object.
    pub fn take_map(&mut self, name: &str) -> Result<Map> {
        self.0.take_map(name).ok_or_else(|| missing(name))
    }

    /// Packets that its programs have counted by reason, on the fast path and the full path.
    pub fn counted(&self) -> Result<Vec<(Reason, u64)>> {
        let map = self.0.map("COUNTED").ok_or_else(|| missing("COUNTED"))?;
        let rows = PerCpuArray::<_, Raw<Counters>>::try_from(map)?;
        let rows = [rows.get(&FAST, 0)?, rows.get(&FULL, 0)?];
        let of = |reason: Reason| -> u64 {
            rows.iter()
                .flat_map(|row| row.iter())
                .map(|Raw(one)| one.by_reason[reason as usize].packets)
                .sum()
        };
        Ok(Reason::ALL
            .into_iter()
            .map(|reason| (reason, of(reason)))
            .collect())
    }
}

fn missing(name: &str) -> anyhow::Error {
    anyhow!("the prebuilt object lacks {name}: run `cargo xtask build-ebpf`")
}

/// An error with only the verifier's last line, which has the reason. The whole log has thousands of lines.
fn refused(name: &str, error: &ProgramError) -> anyhow::Error {
    match error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            let log = verifier_log.to_string();
            let last = log
                .lines()
                .rev()
                .find(|line| !line.is_empty())
                .unwrap_or("no log");
            anyhow!("the kernel refused {name} ({io_error}; {last})")
        }
        other => anyhow!("the kernel refused {name} ({other})"),
    }
}
