//! Loads a foreign XDP program: a few instructions that count packets, and drop one port.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
    process::Command,
};

use aya::{
    maps::{Array, IterableMap, MapData},
    programs::loaded_programs,
};
use limiter_kernel::sys::interface;

use crate::hosts::Hosts;

/// Properties of a loaded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// True if the program takes multi-buffer packets.
    pub frags: bool,
    /// `BPF_XDP`, or 0 with old loaders.
    pub attach_type: u32,
}

/// The properties that current loaders give a program in `SEC("xdp")`.
pub const PLAIN: Kind = Kind {
    frags: false,
    attach_type: 37,
};
/// The properties that current loaders give a program in `SEC("xdp.frags")`.
pub const FRAGS: Kind = Kind {
    frags: true,
    ..PLAIN
};

/// The UDP port that the program drops.
pub const DROPPED_PORT: u16 = 53;

/// The program.
pub struct Foreign {
    /// The program's id.
    pub id: u32,
    /// The program's descriptor.
    pub fd: OwnedFd,
    seen: Array<MapData, u64>,
}

impl Foreign {
    /// Loads the program.
    pub fn load(kind: Kind) -> Self {
        let seen = Array::<MapData, u64>::create(1, 0).unwrap();
        let fd = load(&instructions(&seen), kind).unwrap();
        // The map identifies the program: no two programs share it.
        let mut programs = loaded_programs().flatten();
        let own = programs.find(|program| {
            let maps = program.map_ids().unwrap_or_default().unwrap_or_default();
            maps == [seen.map().info().unwrap().id()]
        });
        let id = own.unwrap().id();
        Self { id, fd, seen }
    }

    /// Packets that the program has counted.
    pub fn seen(&self) -> u64 {
        self.seen.get(&0, 0).unwrap()
    }

    /// Attaches the program to the server by netlink, as other tools do. `mode` is in the notation of `bpftool`.
    pub fn attach(&self, hosts: &Hosts, mode: &str) {
        attach(hosts, mode, self.id);
    }
}

/// Attaches the program with this id to the server by netlink. `mode` is in the notation of `bpftool`.
pub fn attach(hosts: &Hosts, mode: &str, id: u32) {
    let id = id.to_string();
    assert!(bpftool(
        hosts,
        &["net", "attach", mode, "id", &id, "dev", "eth0"]
    ));
}

/// Runs `bpftool` on the server. Returns false if it fails.
pub fn bpftool(hosts: &Hosts, arguments: &[&str]) -> bool {
    let run = || Command::new("bpftool").args(arguments).output();
    let output = hosts.server.namespace.run(run).unwrap().unwrap();
    output.status.success()
}

/// Mode and id of the program on the server, from netlink.
pub fn on_server(hosts: &Hosts) -> Option<(&'static str, u32)> {
    let interface = hosts
        .server
        .namespace
        .block_on(|| interface::by_name("eth0"));
    let xdp = interface.unwrap().unwrap().xdp?;
    Some((xdp.mode.name(), xdp.program_id))
}

/// One instruction: code, registers (source, destination), offset, immediate.
pub(crate) fn instruction(code: u8, registers: (u8, u8), offset: i16, number: i32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[0] = code;
    bytes[1] = if cfg!(target_endian = "little") {
        registers.0 << 4 | registers.1
    } else {
        registers.1 << 4 | registers.0
    };
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Bounds check, UDP port behind an IPv4 header without options, count, verdict.
fn instructions(seen: &Array<MapData, u64>) -> Vec<[u8; 8]> {
    use std::os::fd::{AsFd, AsRawFd};

    const DROP: i32 = 1;
    const PASS: i32 = 2;
    const MAP_LOOKUP: i32 = 1;
    let map = seen.map().fd().as_fd().as_raw_fd();
    let port = i32::from(DROPPED_PORT.to_be());
    vec![
        instruction(0x61, (1, 6), 0, 0),    // r6 = data
        instruction(0x61, (1, 7), 4, 0),    // r7 = data_end
        instruction(0xb7, (0, 8), 0, PASS), // r8 = XDP_PASS
        instruction(0xbf, (6, 0), 0, 0),    // r0 = r6
        instruction(0x07, (0, 0), 0, 42),   // r0 += 42
        instruction(0x2d, (7, 0), 3, 0),    // if r0 > r7 goto count
        instruction(0x69, (6, 0), 36, 0),   // r0 = *(u16 *)(r6 + 36)
        instruction(0x55, (0, 0), 1, port), // if r0 != port goto count
        instruction(0xb7, (0, 8), 0, DROP), // r8 = XDP_DROP
        instruction(0x62, (0, 10), -4, 0),  // count: *(u32 *)(r10 - 4) = 0
        instruction(0xbf, (10, 2), 0, 0),   // r2 = r10
        instruction(0x07, (0, 2), 0, -4),   // r2 += -4
        instruction(0x18, (1, 1), 0, map),  // r1 = map
        instruction(0, (0, 0), 0, 0),
        instruction(0x85, (0, 0), 0, MAP_LOOKUP), // r0 = map_lookup_elem(r1, r2)
        instruction(0x15, (0, 0), 2, 0),          // if r0 == 0 goto out
        instruction(0xb7, (0, 1), 0, 1),          // r1 = 1
        instruction(0xdb, (1, 0), 0, 0),          // lock *(u64 *)(r0 + 0) += r1
        instruction(0xbf, (8, 0), 0, 0),          // out: r0 = r8
        instruction(0x95, (0, 0), 0, 0),          // exit
    ]
}

/// Calls `BPF_PROG_LOAD` as other loaders do.
pub(crate) fn load(instructions: &[[u8; 8]], kind: Kind) -> io::Result<OwnedFd> {
    const BPF_PROG_LOAD: libc::c_int = 5;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
    #[repr(C)]
    struct Attributes {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        expected_attach_type: u32,
    }
    let mut name = [0; 16];
    name[..9].copy_from_slice(b"other_xdp");
    let attributes = Attributes {
        program_type: BPF_PROG_TYPE_XDP,
        instruction_count: u32::try_from(instructions.len()).unwrap(),
        instructions: instructions.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if kind.frags { BPF_F_XDP_HAS_FRAGS } else { 0 },
        name,
        interface: 0,
        expected_attach_type: kind.attach_type,
    };
    // SAFETY: the attributes are valid for their size, and so are their pointers; the returned descriptor is ours
    // alone.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_LOAD,
            &raw const attributes,
            size_of::<Attributes>(),
        );
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
