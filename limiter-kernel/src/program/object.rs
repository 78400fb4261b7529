//! The compiled program: chosen by byte order, given its constants, loaded over new or pinned maps.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use aya::{
    Ebpf, EbpfError, EbpfLoader, include_bytes_aligned,
    maps::{Map, MapData, MapError, ProgramArray},
    programs::{Program as AyaProgram, ProgramError, ProgramFd},
};
use limiter_common::{
    abi::{CLOCK_KERNEL, Constants, SETS_OF_WORD, log::LOGS_BYTES, rules::absent},
    open,
    policy::{learn, second_chance::lines},
    table::{Seed, key::SLOTS},
};

use limiter_config::{compile::Compiled, index::Plan};

use crate::{
    error::{self, Error, Failed, Result, cause, read_failed},
    program::{
        Bans,
        connections::{self, Counter, OpenTable},
        list_maps, loader, log,
        maps::{self, Tables, missing},
        raw::Raw,
    },
    sys::{
        bpf, btf, clock,
        folder::{Dir, Pin},
        requirements,
    },
};

/// The name of a program's pin in the folder of its generation.
pub const PIN: &str = "program";

macro_rules! prebuilt {
    ($name:literal) => {
        if cfg!(target_endian = "little") {
            prebuilt!($name, ".bpfel.o")
        } else {
            prebuilt!($name, ".bpfeb.o")
        }
    };
    ($name:literal, $kind:literal) => {
        include_bytes_aligned!(concat!("../../../limiter-ebpf/prebuilt/", $name, $kind))
    };
}

/// The maps that a program works on.
#[derive(Clone, Copy, Debug)]
pub enum Maps<'a> {
    /// New ones.
    New,
    /// New maps for packets with their own times. Equal packets then give equal results.
    Replayed {
        /// The secret that assigns keys to sets.
        seed: Seed,
        /// Time at which the new-source limit's bucket is full, in nanoseconds.
        full_at: u64,
    },
    /// The maps that are pinned in this folder.
    Pinned(&'a Dir),
}

/// The lists that a program looks sources up in.
#[derive(Clone, Copy, Debug)]
pub enum ListMaps<'a> {
    /// New maps with these prefixes.
    New(&'a Compiled),
    /// The maps that are pinned in this folder of a generation.
    Pinned(&'a Dir),
}

/// The names of all entries.
pub(crate) const ENTRIES: [&str; 6] = [
    "limiter",
    "limiter_frags",
    "limiter_tc",
    "limits",
    "limits_frags",
    "limits_tc",
];

/// The name of the program's entry. `tc`: the one for the network stack. `frags`: the one that takes packets in several
/// buffers (Linux 5.18).
const fn entry_name(fast_path: bool, tc: bool, frags: bool) -> &'static str {
    match (fast_path, tc, frags) {
        (true, true, _) => "limiter_tc",
        (false, true, _) => "limits_tc",
        (true, false, false) => "limiter",
        (true, false, true) => "limiter_frags",
        (false, false, false) => "limits",
        (false, false, true) => "limits_frags",
    }
}

/// The name of the constants in the object.
const CONSTANTS: &str = "CONSTANTS";

/// The object without the questions that the constants answer.
fn specialised(object: &[u8], constants: &Raw<Constants>) -> Result<Vec<u8>> {
    let specialised = limiter_specialise::specialise(object, CONSTANTS, constants.bytes());
    specialised.ok_or_else(|| missing(CONSTANTS))
}

/// A program in the kernel, attached to nothing yet.
#[derive(Debug)]
pub struct Program {
    ebpf: Ebpf,
    entry: &'static str,
    /// Counts open connections, if a limit bounds them.
    counter: Option<Counter>,
}

/// Loads the program with the constants of `config`. `frags`: the entry that takes packets in several buffers.
pub fn load(
    config: &Constants,
    maps: Maps<'_>,
    lists: ListMaps<'_>,
    frags: bool,
) -> Result<Program> {
    if config.proof != 0 {
        requirements::answers(config.tc != 0)?;
    }
    let (seed, new_sources_full_at) = match maps {
        Maps::New if config.clock == CLOCK_KERNEL => (new_seed()?, Some(clock::now()?)),
        Maps::New => (new_seed()?, Some(0)),
        Maps::Replayed { seed, full_at } => (seed, Some(full_at)),
        Maps::Pinned(folder) => (maps::seed_of(folder)?, None),
    };
    let mut constants = Box::new(Raw(*config));
    constants.0.seed = seed;
    constants.0.can_copy = requirements::has_frags().into();
    if config.log != 0 {
        // The fast path keeps no state that the log could report.
        constants.0.fast_path = 0;
    }
    constants.0.follow_up = config.has_follow_up().into();
    // Times of packets need no bounds, and their decisions no leases.
    constants.0.tick = 0;
    if config.clock == CLOCK_KERNEL {
        constants.0.tick = clock::tick()?;
        let cpus = clock::possible_cpus()? as u64;
        for limit in &mut constants.0.limits[..config.limits_length as usize] {
            if limit.lease(cpus) {
                // The fast path has no leases.
                constants.0.fast_path = 0;
            }
        }
    }
    let limits = &constants.0.limits[..constants.0.limits_length as usize];
    constants.0.absent = absent(limits);
    let plan;
    (plan, constants.0.index) = match lists {
        ListMaps::New(prefixes) => {
            let plan = Plan::new(prefixes)?;
            let index = plan.index;
            (Some(plan), index)
        }
        ListMaps::Pinned(folder) => (None, list_maps::index(folder)?),
    };
    // Keeps the pins open: the loader opens the maps by their descriptors.
    let mut held = Vec::new();
    let next = maps::next_of(frags && config.tc == 0);
    let mut loader = loader::without_kernel_types();
    if config.bounds.limits != 0 && config.clock == CLOCK_KERNEL {
        constants.0.bounds.offsets = btf::offsets()?;
    }
    loader.override_global(CONSTANTS, &*constants, true);
    loader.map_max_entries(connections::TABLE, open::table_lines(&config.bounds));
    if !config.looks_up_sockets() {
        loader.map_max_entries("LOOKUPS", 1);
    }
    match maps {
        Maps::New | Maps::Replayed { .. } => {
            loader.map_max_entries("SETS", config.sets);
            loader.map_max_entries("OVERFLOW", config.sets.div_ceil(SETS_OF_WORD));
            loader.map_max_entries("REFUSED", lines(config.sets));
            loader.map_max_entries("BANS", config.bans.max(1));
            loader.map_max_entries("BANS_BY_ORIGIN", config.bans.max(1));
            // The trie has room for one more: before Linux 6.13, a full one refuses a new value for a prefix that it has.
            loader.map_max_entries("BANNED_PREFIXES", config.bans + 1);
        }
        Maps::Pinned(folder) => held.extend(pin_paths(&mut loader, &maps::MAPS, next, folder)?),
    }
    if let Some(plan) = &plan {
        loader.map_max_entries(maps::LISTED, plan.length);
    }
    if let ListMaps::Pinned(folder) = lists {
        held.extend(pin_paths(&mut loader, &maps::LIST_MAPS, next, folder)?);
    }
    match maps {
        _ if config.log == 0 => {}
        Maps::Pinned(folder) if log::is_pinned(folder)? => {
            held.extend(pin_paths(&mut loader, &log::MAPS, next, folder)?);
        }
        _ => _ = loader.map_max_entries(log::MESSAGES, LOGS_BYTES),
    }
    let tc = config.tc != 0;
    let object: &[u8] = if tc {
        prebuilt!("limiter-tc")
    } else {
        prebuilt!("limiter")
    };
    let object = specialised(object, &constants)?;
    let mut ebpf = loader.load(&object).map_err(load_error)?;
    if let Some(plan) = plan {
        list_maps::fill(&mut ebpf, plan)?;
    }
    if let Some(full_at) = new_sources_full_at {
        maps::fill_table(&mut ebpf, seed, full_at)?;
    }
    let entry = entry_name(constants.0.fast_path != 0, tc, frags);
    load_program(&mut ebpf, entry)?;
    // Counting begins before the program is on an interface, so that no change is lost.
    let counts = constants.0.bounds.limits != 0 && config.clock == CLOCK_KERNEL;
    let counter = counts.then(|| count_connections(&mut ebpf, constants.0));
    Ok(Program {
        ebpf,
        entry,
        counter: counter.transpose()?,
    })
}

/// Begins to count open connections, and then counts those that are open already.
fn count_connections(ebpf: &mut Ebpf, constants: Constants) -> Result<Counter> {
    let Some(AyaProgram::RawTracePoint(program)) = ebpf.program_mut(connections::ENTRY) else {
        return Err(missing(connections::ENTRY));
    };
    program.load().map_err(program_error)?;
    let program = program.fd().map_err(program_error)?.as_fd();
    let link = bpf::open_raw_tracepoint(c"inet_sock_set_state", program);
    let counter = Counter(link.failed("counting connections")?);
    let Map::Array(map) = maps::named(ebpf, connections::TABLE)? else {
        return Err(missing(connections::TABLE));
    };
    OpenTable::new(map, Box::new(constants))?.correct()?;
    Ok(counter)
}

/// Loads the program of `learn`, for packets in several buffers if the kernel has them.
pub(crate) fn load_learn(frags: bool) -> Result<Program> {
    let mut constants = Box::new(Raw(Constants::NONE));
    (constants.0.needs, constants.0.established) = (learn::NEEDS, 1);
    constants.0.tick = clock::tick()?;
    let mut loader = loader::without_kernel_types();
    loader.override_global(CONSTANTS, &*constants, true);
    let loaded = loader.load(&specialised(prebuilt!("learn"), &constants)?);
    let mut ebpf = loaded.map_err(load_error)?;
    let mut entry = "learn_frags";
    if !frags || load_program(&mut ebpf, entry).is_err() {
        entry = "learn";
        load_program(&mut ebpf, entry)?;
    }
    Ok(Program {
        ebpf,
        entry,
        counter: None,
    })
}

/// A new secret: assigns keys to sets, or decides which sources are in a sample.
pub fn new_seed() -> Result<Seed> {
    let random = || {
        getrandom::u64()
            .map_err(|error| Error::system("reading random bits", io::Error::other(error)))
    };
    Ok(Seed::new([random()?, random()?, random()?, random()?]))
}

/// Makes the loader use the maps that are pinned in `folder`, where [`maps::NEXT`] stands for `next`. They stay open until
/// the returned pins are dropped.
fn pin_paths(
    loader: &mut EbpfLoader<'_>,
    maps: &[&'static str],
    next: &'static str,
    folder: &Dir,
) -> Result<Vec<Pin>> {
    let pin = |name: &&'static str| {
        let pin = folder.pin(name);
        let pin = pin.failed_at("opening", folder.path().join(name))?;
        let name = if *name == maps::NEXT { next } else { name };
        loader.map_pin_path(name, pin.path());
        Ok(pin)
    };
    maps.iter().map(pin).collect()
}

impl Program {
    /// The program's descriptor.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        Ok(self.handle()?.as_fd())
    }

    fn handle(&self) -> Result<&ProgramFd> {
        match self.ebpf.program(self.entry) {
            Some(AyaProgram::Xdp(program)) => program.fd(),
            Some(AyaProgram::SchedClassifier(program)) => program.fd(),
            _ => return Err(missing(self.entry)),
        }
        .map_err(program_error)
    }

    /// The tables of a program that is not pinned. They can be taken once.
    pub fn tables(&mut self) -> Result<Tables> {
        Tables::new(|name| self.take_map(name), 0)
    }

    /// The name of the program's entry in the object.
    pub fn entry(&self) -> &'static str {
        self.entry
    }

    /// Makes this the program that a trial over the same maps falls back to, by `index`.
    pub(crate) fn stand_by(&mut self, index: u32) -> Result<()> {
        let own = self.handle()?.try_clone();
        own.and_then(|own| self.put_next(index, &own))
            .map_err(|error| Error::system("preparing the end of the trial", error))
    }

    fn next(&self) -> &'static str {
        maps::next_of(self.entry.ends_with("_frags"))
    }

    /// Makes `next` the program that packets go on to by `index`. Fails with `EINVAL` if one of the two programs takes
    /// packets in several buffers and the other does not.
    pub(crate) fn put_next(&mut self, index: u32, next: &ProgramFd) -> io::Result<()> {
        let map = self.map_mut(self.next()).map_err(io::Error::other)?;
        let set = ProgramArray::try_from(map).and_then(|mut array| array.set(index, next, 0));
        set.map_err(|error| match error {
            MapError::SyscallError(call) => call.io_error,
            error => io::Error::other(error),
        })
    }

    /// The bans in the program's maps.
    pub(crate) fn bans(&self) -> Result<Bans> {
        Bans::new(|name| {
            let map = self.ebpf.map(name).ok_or_else(|| missing(name))?;
            let (Map::HashMap(map) | Map::LpmTrie(map) | Map::Array(map)) = map else {
                return Err(missing(name));
            };
            let own = map.fd().as_fd().try_clone_to_owned();
            let own = own.failed("opening the maps of bans")?;
            MapData::from_fd(own).map_err(read_failed)
        })
    }

    /// Pins the program in the `folder` of a generation, and what counts connections.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        if let Some(counter) = &self.counter {
            self.pin_maps(&[connections::TABLE], folder)?;
            counter.pin(folder)?;
        }
        folder.put(PIN, self.fd()?)
    }

    /// Pins these maps of the program in `folder`.
    pub fn pin_maps(&self, maps: &[&'static str], folder: &Dir) -> Result<()> {
        for name in maps {
            let of_next = *name == maps::NEXT;
            let map = self.ebpf.map(if of_next { self.next() } else { name });
            let map = map.ok_or_else(|| missing(name))?;
            let pinned = map.pin(folder.at(name)).map_err(cause);
            pinned.failed_at("pinning", folder.path().join(name))?;
        }
        Ok(())
    }

    /// Writes the number of entries that the limit in each slot holds, for a table that no program has counted.
    pub fn share_out(&mut self, held: &[u64; SLOTS as usize]) -> Result<()> {
        maps::change_shares(&mut self.ebpf, |row, share| {
            share.held = held.get(row).copied().unwrap_or(0);
        })
    }

    /// One of the program's maps.
    pub fn map_mut(&mut self, name: &'static str) -> Result<&mut Map> {
        maps::named(&mut self.ebpf, name)
    }

    /// The program and its maps, as aya-log needs them.
    pub(super) fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Takes one of the program's maps out.
    pub fn take_map(&mut self, name: &'static str) -> Result<Map> {
        self.ebpf.take_map(name).ok_or_else(|| missing(name))
    }
}

fn load_program(ebpf: &mut Ebpf, entry: &'static str) -> Result<()> {
    match ebpf.program_mut(entry) {
        Some(AyaProgram::Xdp(program)) => program.load(),
        Some(AyaProgram::SchedClassifier(program)) => program.load(),
        _ => return Err(missing(entry)),
    }
    .map_err(program_error)
}

const REPORT: &str = "please report this with the kernel's version (`uname -r`)";

fn program_error(error: ProgramError) -> Error {
    let (why, advice) = match &error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            let advice = match io_error.raw_os_error() {
                Some(libc::EPERM) => return Error::refused_by_kernel(),
                Some(libc::ENOMEM) => "free memory, and try again",
                _ => REPORT,
            };
            let log = verifier_log.to_string();
            (format!("{io_error}; {}", reason_in(&log)), advice)
        }
        error => (error.to_string(), REPORT),
    };
    Error::load("program", &why, advice)
}

/// The line of a verifier's log with the reason: the last one before its statistics.
fn reason_in(log: &str) -> &str {
    const STATISTICS: [&str; 5] = [
        "processed ",
        "verification time",
        "stack depth",
        "mark_precise",
        "subprog ",
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
    let (map, why) = match error {
        EbpfError::MapError(MapError::CreateError { name, io_error }) => {
            (format!("map {name}"), io_error)
        }
        EbpfError::MapError(error) => ("a map".to_owned(), cause(error)),
        error => return Error::load("program", &error::flat(&error), REPORT),
    };
    if why.raw_os_error() == Some(libc::EPERM) {
        return Error::refused_by_kernel();
    }
    let advice = "their size depends on --max-sources, --max-bans and the lists: lower one of them, or free memory";
    Error::load("tables", &format!("{map}: {why}"), advice)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reason_is_found_in_the_verifier_log() {
        let log = "0: R1=ctx()\nR2 pointer -= pointer prohibited\nverification time 9 usec\nstack depth 0\nprocessed 4 insns (limit 1000000)\n\n";
        assert_eq!(super::reason_in(log), "R2 pointer -= pointer prohibited");
        assert_eq!(super::reason_in(""), "no verifier log");
    }
}
