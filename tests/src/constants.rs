//! The constants of a program in the kernel. Its size does not tell them: older verifiers keep code that newer ones know
//! to be dead.

use std::process::Command;

use aya::{include_bytes_aligned, maps::MapInfo, programs::loaded_programs};
use limiter_common::abi::Constants;
use limiter_kernel::program::raw::Raw;
use object::{Object as _, ObjectSymbol as _};
use serde::Deserialize;

#[cfg(target_endian = "little")]
const OBJECT: &[u8] = include_bytes_aligned!("../../limiter-ebpf/prebuilt/limiter.bpfel.o");
#[cfg(target_endian = "big")]
const OBJECT: &[u8] = include_bytes_aligned!("../../limiter-ebpf/prebuilt/limiter.bpfeb.o");

/// An entry of a map, as bpftool shows it.
#[derive(Deserialize)]
struct Entry {
    value: Vec<String>,
}

/// The digest of the instructions of the program with this id.
pub fn tag_of_program(id: u64) -> u64 {
    let mut all = loaded_programs().flatten();
    let program = all.find(|program| u64::from(program.id()) == id);
    program.unwrap().tag()
}

/// The constants of the XDP program with this id.
pub fn of_program(id: u64) -> Constants {
    let mut all = loaded_programs().flatten();
    let program = all.find(|program| u64::from(program.id()) == id).unwrap();
    let mut maps = program.map_ids().unwrap().unwrap().into_iter();
    let section = maps.find(|id| {
        let map = MapInfo::from_id(*id).unwrap();
        map.name_as_str() == Some(".rodata")
    });
    let section = section.unwrap().to_string();
    let mut bpftool = Command::new("bpftool");
    bpftool.args(["--json", "map", "dump", "id", &section]);
    let shown = bpftool.output().unwrap().stdout;
    let entries: [Entry; 1] = serde_json::from_slice(&shown).unwrap();
    let byte = |text: &String| u8::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let bytes: Vec<u8> = entries[0].value.iter().map(byte).collect();
    let object = object::File::parse(OBJECT).unwrap();
    let place = object.symbol_by_name("CONSTANTS").unwrap().address();
    Raw::read(&bytes[usize::try_from(place).unwrap()..]).unwrap()
}
