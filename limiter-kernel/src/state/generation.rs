//! The pins of a generation: one loaded program, its lists and its record.

use std::{io, os::fd::OwnedFd};

use aya::programs::ProgramInfo;

use crate::{
    Error, Failed, Result,
    program::{Program, maps, object},
    state::{Record, Trial, pins},
    sys::Dir,
};

#[derive(Clone, Debug)]
pub struct Generation {
    /// Its number, which its folder is named after.
    pub number: u64,
    /// Id of its program.
    pub program_id: u32,
    /// Its folder.
    pub dir: Dir,
}

/// Pins the first generation, and the maps that all generations share, but not the link.
pub fn pin_first(program: &Program, record: &Record, folder: &Dir) -> Result<()> {
    program.pin_maps(&maps::MAPS, folder)?;
    pin(program, record, folder, 0)
}

/// Pins generation `number`: a program, its lists and its record.
pub fn pin(program: &Program, record: &Record, folder: &Dir, number: u64) -> Result<()> {
    let name = pins::generation(number);
    let generation = folder.make(&name)?.ok_or_else(|| {
        let gone = io::ErrorKind::NotFound.into();
        Error::path("making the folder", folder.path().join(name), gone)
    })?;
    program.pin_maps(&maps::LIST_MAPS, &generation)?;
    program.pin(&generation)?;
    record.pin(&generation)
}

impl Generation {
    /// The generation of the program with this id.
    pub fn of_program(folder: &Dir, id: u32) -> Result<Option<Self>> {
        let open = |number: u64| {
            let dir = folder.open(&pins::generation(number)).ok().flatten()?;
            let info = ProgramInfo::from_pin(dir.pin(object::PIN).ok()?.path()).ok()?;
            Some(Self {
                number,
                program_id: info.id(),
                dir,
            })
        };
        let mut all = pins::generations(folder)?.into_iter().filter_map(open);
        Ok(all.find(|generation| generation.program_id == id))
    }

    /// The fallback of a trial, as set in the kernel; `None` if it has none.
    pub fn fallback(folder: &Dir, trial: Trial) -> Result<Option<Self>> {
        if !trial.falls_back() {
            return Ok(None);
        }
        match maps::next_id(folder, trial.next)? {
            Some(id) => Self::of_program(folder, id),
            None => Ok(None),
        }
    }

    /// Opens the program by its pin. Opening it by its id would need `CAP_SYS_ADMIN`.
    pub fn program(&self) -> Result<OwnedFd> {
        let path = self.dir.path().join(object::PIN);
        self.dir.object(object::PIN).failed_at("opening", path)
    }
}
