//! The pins of a generation: one loaded program, its lists and its record.

use std::{io, os::fd::OwnedFd};

use aya::programs::ProgramInfo;

use crate::kernel::{
    error::{Error, Result},
    program::{object, object::Program},
    state::{pins, record::Record},
    sys::folder::Dir,
};

/// Pins the first generation, and the maps that all generations share, but not the link.
pub(in crate::kernel) fn pin_first(program: &Program, record: &Record, folder: &Dir) -> Result<()> {
    program.pin_maps(folder)?;
    pin(program, record, folder, 0)
}

/// Pins generation `number`: a program, its lists and its record.
pub(in crate::kernel) fn pin(
    program: &Program,
    record: &Record,
    folder: &Dir,
    number: u64,
) -> Result<()> {
    let name = pins::generation(number);
    let gone = || {
        failed(
            "making the folder",
            folder,
            number,
            io::ErrorKind::NotFound.into(),
        )
    };
    let generation = folder.make(&name)?.ok_or_else(gone)?;
    program.pin_lists(&generation)?;
    program.pin(&generation)?;
    record.pin(&generation)
}

/// The folder of generation `number`.
pub(in crate::kernel) fn open(folder: &Dir, number: u64) -> Result<Dir> {
    let gone = || failed("opening", folder, number, io::ErrorKind::NotFound.into());
    folder.open(&pins::generation(number))?.ok_or_else(gone)
}

/// Opens the program of generation `number` by its pin. Opening it by its id would need `CAP_SYS_ADMIN`.
pub(in crate::kernel) fn program(folder: &Dir, number: u64) -> Result<OwnedFd> {
    let program = open(folder, number)?.object(object::PIN);
    program.map_err(|error| failed("opening the program of", folder, number, error))
}

/// The generation of the program with this id.
pub(in crate::kernel) fn of_program(folder: &Dir, id: u32) -> Result<Option<u64>> {
    let is_of = |number: &u64| {
        let generation = folder.open(&pins::generation(*number)).ok().flatten();
        let pin = generation.and_then(|generation| generation.pin(object::PIN).ok());
        let program = pin.and_then(|pin| ProgramInfo::from_pin(pin.path()).ok());
        program.is_some_and(|program| program.id() == id)
    };
    Ok(pins::generations(folder)?.into_iter().find(is_of))
}

fn failed(doing: &'static str, folder: &Dir, number: u64, why: io::Error) -> Error {
    Error::path(doing, folder.path().join(pins::generation(number)), why)
}
