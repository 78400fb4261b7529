//! The compiled program: chosen by byte order, given its constants, loaded over new or pinned maps.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use aya::{
    Ebpf, EbpfError, EbpfLoader, include_bytes_aligned,
    maps::{Map, MapError},
    programs::{Program as AyaProgram, ProgramError, Xdp},
};
use limiter_common::layout::Config;

use super::{
    error::{Error, Result},
    pins,
    wire::Wire,
};

/// Which build of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// What limits.
    Plain,
    /// The same, with debug lines through aya-log.
    Log,
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

impl Variant {
    fn object(self) -> &'static [u8] {
        match self {
            Self::Plain => prebuilt!("limiter"),
            Self::Log => prebuilt!("limiter-log"),
        }
    }
}

/// The maps that a program works on.
#[derive(Clone, Copy, Debug)]
pub enum Maps<'a> {
    /// New ones.
    New,
    /// Those that are pinned in this folder, whose shapes have been checked.
    Pinned(&'a Path),
}

/// A program in the kernel, attached to nothing yet.
#[derive(Debug)]
pub struct Program {
    ebpf: Ebpf,
    entry: &'static str,
}

/// Loads the program with the constants of `config`. `frags` asks for the entry that takes packets in
/// several buffers (Linux 5.18).
pub fn load(variant: Variant, config: &Config, maps: Maps<'_>, frags: bool) -> Result<Program> {
    let constants = Wire(*config);
    let mut loader = EbpfLoader::new();
    // Nothing is relocated against the kernel's types: no need to read them (some 50 ms).
    loader.btf(None).override_global("CONFIG", &constants, true);
    match maps {
        Maps::New => {
            loader.map_max_entries("SOURCES", config.capacity);
            loader.map_max_entries("PLACES", config.capacity);
        }
        Maps::Pinned(folder) => {
            for name in pins::MAPS {
                loader.map_pin_path(name, folder.join(name));
            }
        }
    }
    let mut ebpf = loader.load(variant.object()).map_err(load_error)?;
    let entry = if frags { "limiter_frags" } else { "limiter" };
    xdp(&mut ebpf, entry)?.load().map_err(program_error)?;
    Ok(Program { ebpf, entry })
}

impl Program {
    /// Its descriptor.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        match self.ebpf.program(self.entry) {
            Some(AyaProgram::Xdp(program)) => Ok(program.fd().map_err(program_error)?.as_fd()),
            _ => Err(missing(self.entry)),
        }
    }

    /// Pins it under `path`.
    pub fn pin(&self, path: &Path) -> Result<()> {
        super::sys::pin(self.fd()?, path).map_err(|error| Error::path("pinning", path, error))
    }

    /// Pins its maps in `folder`.
    pub fn pin_maps(&self, folder: &Path) -> Result<()> {
        for name in pins::MAPS {
            let path = folder.join(name);
            let map = self.ebpf.map(name).ok_or_else(|| missing(name))?;
            map.pin(&path)
                .map_err(|error| Error::path("pinning", &path, io::Error::other(error)))?;
        }
        Ok(())
    }

    /// The logger of a program that logs; it writes to `sink`.
    pub fn logger<S: log::Log>(&mut self, sink: S) -> Result<aya_log::EbpfLogger<S>> {
        aya_log::EbpfLogger::init_with_logger(&mut self.ebpf, sink)
            .map_err(|error| Error::system("opening the log", io::Error::other(error)))
    }

    /// Gives away one of its maps.
    pub fn take_map(&mut self, name: &'static str) -> Result<Map> {
        self.ebpf.take_map(name).ok_or_else(|| missing(name))
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, entry: &'static str) -> Result<&'a mut Xdp> {
    match ebpf.program_mut(entry) {
        Some(AyaProgram::Xdp(program)) => Ok(program),
        _ => Err(missing(entry)),
    }
}

fn missing(name: &str) -> Error {
    Error::Load {
        what: "program",
        why: format!("the built-in object lacks {name}"),
        advice: "this build of limiter is broken: install it anew",
    }
}

fn program_error(error: ProgramError) -> Error {
    if let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = &error
    {
        if io_error.raw_os_error() == Some(libc::EPERM) {
            return Error::NotPermitted;
        }
        let log = verifier_log.to_string();
        let reason = reason_in(&log);
        return Error::Load {
            what: "program",
            why: format!("{io_error}; {reason}"),
            advice: "please report this with the kernel's version (`uname -r`)",
        };
    }
    Error::Load {
        what: "program",
        why: error.to_string(),
        advice: "please report this with the kernel's version (`uname -r`)",
    }
}

/// The line of a verifier's log that says why: the last one before its statistics.
fn reason_in(log: &str) -> &str {
    const STATISTICS: [&str; 4] = [
        "processed ",
        "verification time",
        "stack depth",
        "mark_precise",
    ];
    let says_why = |line: &&str| {
        !line.trim().is_empty() && !STATISTICS.iter().any(|start| line.starts_with(start))
    };
    log.lines()
        .rev()
        .find(says_why)
        .unwrap_or("no verifier log")
}

fn load_error(error: EbpfError) -> Error {
    if let EbpfError::MapError(MapError::CreateError { name, io_error }) = &error {
        if io_error.raw_os_error() == Some(libc::EPERM) {
            return Error::NotPermitted;
        }
        return Error::Load {
            what: "tables",
            why: format!("map {name}: {io_error}"),
            advice: "they are as large as --max-sources says: ask for fewer, or free memory",
        };
    }
    Error::Load {
        what: "program",
        why: error.to_string(),
        advice: "please report this with the kernel's version (`uname -r`)",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_verifiers_reason_is_found() {
        let log = "0: R1=ctx()\nR2 pointer -= pointer prohibited\nverification time 9 usec\nstack depth 0\nprocessed 4 insns (limit 1000000)\n\n";
        assert_eq!(super::reason_in(log), "R2 pointer -= pointer prohibited");
        assert_eq!(super::reason_in(""), "no verifier log");
    }
}
