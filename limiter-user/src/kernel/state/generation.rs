//! The pins of a generation: one loaded program, its lists and its record.

use std::io;

use crate::kernel::{
    error::{Error, Result},
    program::object::Program,
    state::{pins, record::Record},
    sys::folder::Dir,
};

/// Pins the first generation, and the maps that all generations share. The link is not pinned here.
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
        Error::path(
            "making the folder",
            folder.path().join(&name),
            io::ErrorKind::NotFound.into(),
        )
    };
    let generation = folder.make(&name)?.ok_or_else(gone)?;
    program.pin_lists(&generation)?;
    program.pin(&generation)?;
    record.pin(&generation)
}
