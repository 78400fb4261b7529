//! The kernel's own words about a refused XDP program: the message of the tracepoint `bpf_xdp_link_attach_failed` (Linux
//! 6.6). A link has no other way to give it, and tracefs is closed to services and containers.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    process,
};

use aya::maps::{Array, IterableMap, MapData};

use crate::{
    error::cause,
    sys::{
        bpf::{self, Kind},
        instruction::{Instruction, instruction},
    },
};

/// The most bytes of a message that are copied.
const LONGEST: u16 = 256;

/// A program on the tracepoint that copies the messages of this process.
struct Listener {
    message: Array<MapData, [u8; LONGEST as usize]>,
    _link: OwnedFd,
}

/// Does `work`. Returns its result with the last message meanwhile, if there is one. In a process namespace of its own, this
/// process is not recognised.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, Option<String>) {
    let listener = Listener::new();
    let done = work();
    (done, listener.ok().and_then(|listener| listener.heard()))
}

impl Listener {
    fn new() -> io::Result<Self> {
        let message = Array::<MapData, [u8; LONGEST as usize]>::create(1, 0).map_err(cause)?;
        let map = message.map().fd().as_fd().as_raw_fd();
        let program = bpf::load(Kind::RawTracepoint, &instructions(map), 0)?;
        let link = bpf::open_raw_tracepoint(c"bpf_xdp_link_attach_failed", program.as_fd())?;
        Ok(Self {
            message,
            _link: link,
        })
    }

    fn heard(&self) -> Option<String> {
        let bytes = self.message.get(&0, 0).ok()?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        let text = String::from_utf8_lossy(text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// The program.
fn instructions(map: i32) -> [Instruction; 11] {
    const GET_CURRENT_PID_TGID: i32 = 14;
    const PROBE_READ_KERNEL_STR: i32 = 115;
    const VALUE_OF_MAP: u8 = 2;
    let (own, longest) = (process::id().cast_signed(), i32::from(LONGEST));
    [
        // r6 = the message, the first argument of the tracepoint.
        instruction(0x79, (6, 1), 0, 0),
        // If this is another process, end.
        instruction(0x85, (0, 0), 0, GET_CURRENT_PID_TGID),
        instruction(0x77, (0, 0), 0, 32),
        instruction(0x55, (0, 0), 5, own),
        // Copy to the map's value, in two parts of one instruction.
        instruction(0x18, (1, VALUE_OF_MAP), 0, map),
        instruction(0, (0, 0), 0, 0),
        instruction(0xb7, (2, 0), 0, longest),
        instruction(0xbf, (3, 6), 0, 0),
        instruction(0x85, (0, 0), 0, PROBE_READ_KERNEL_STR),
        instruction(0xb7, (0, 0), 0, 0),
        instruction(0x95, (0, 0), 0, 0),
    ]
}
