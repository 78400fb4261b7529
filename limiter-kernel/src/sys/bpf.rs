//! The few `bpf(2)` commands that aya does not offer, or only with unwanted behaviour. Its `attach` silently falls
//! back to netlink, and a program attached so can neither be pinned nor replaced.
//!
//! The attributes of a command are its part of `union bpf_attr` (include/uapi/linux/bpf.h). The kernel reads missing
//! attributes at the end as zero.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    ffi::{CStr, CString},
    io, mem,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use nix::errno::Errno;

use super::instruction::Instruction;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_LINK_DETACH: libc::c_int = 34;

/// `enum bpf_attach_type`.
pub const BPF_XDP: u32 = 37;
/// The hook for packets that come in (Linux 6.6).
pub const BPF_TCX_INGRESS: u32 = 46;
/// The hook for packets that go out.
pub const BPF_TCX_EGRESS: u32 = 47;
/// `bpf_attr.link_update.flags`: only if the link runs the program given as the old one.
const BPF_F_REPLACE: u32 = 1 << 2;

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// One `bpf(2)` call with the attributes of its command.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<RawFd> {
    // SAFETY: `attributes` is a live, exclusively borrowed value of the size that is passed; every
    // pointer within it was made by the callers below from values that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    RawFd::try_from(Errno::result(result)?).map_err(io::Error::other)
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: only called with a descriptor that the kernel has just made for this process.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Kinds of programs that [`load`] loads (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// For packets at the driver.
    Xdp = 6,
    /// For a tracepoint.
    RawTracepoint = 17,
}

/// Loads a program, with the `flags` of its kind (`BPF_F_XDP_*`).
pub fn load(kind: Kind, instructions: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log: [u32; 4],
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: u32,
    }
    let mut attributes = Attributes {
        kind: kind as u32,
        count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: address(instructions.as_ptr()),
        license: address(c"Dual MIT/GPL".as_ptr()),
        log: [0; 4],
        kernel_version: 0,
        flags,
        name: [0; 16],
        interface: 0,
        attach_type: match kind {
            Kind::Xdp => BPF_XDP,
            Kind::RawTracepoint => 0,
        },
    };
    bpf(BPF_PROG_LOAD, &mut attributes).map(owned)
}

/// Runs an XDP program once, with a packet of zeros. Returns its result.
pub fn run_once(program: BorrowedFd<'_>) -> io::Result<u32> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        result: u32,
        length: u32,
        length_out: u32,
        packet: u64,
        packet_out: u64,
        times: u32,
        duration: u32,
    }
    // The kernel wants an Ethernet header at least.
    let packet = [0_u8; 64];
    let mut attributes = Attributes {
        program: raw(program),
        result: 0,
        length: 64,
        length_out: 0,
        packet: address(packet.as_ptr()),
        packet_out: 0,
        times: 1,
        duration: 0,
    };
    bpf(BPF_PROG_TEST_RUN, &mut attributes)?;
    Ok(attributes.result)
}

/// Runs a program at the tracepoint called `name` until the returned link is dropped.
pub fn open_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        name: u64,
        program: u32,
        rest: u32,
    }
    let mut attributes = Attributes {
        name: address(name.as_ptr()),
        program: raw(program),
        rest: 0,
    };
    bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attributes).map(owned)
}

/// Attaches a program to the hook `attach_type` of an interface by a link. The flags of XDP are its mode; those of the
/// network stack (Linux 6.6) are a place among its programs, next to the program with this id.
pub fn link_create(
    program: BorrowedFd<'_>,
    interface: u32,
    attach_type: u32,
    (flags, id): (u32, u32),
) -> io::Result<OwnedFd> {
    // The last three are padding, and no expected revision.
    let mut attributes = [raw(program), interface, attach_type, flags, id, 0, 0, 0];
    bpf(BPF_LINK_CREATE, &mut attributes).map(owned)
}

/// A place among the programs of an interface, by the id of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of it.
    Before(u32),
    /// Behind it.
    After(u32),
}

impl Place {
    /// Flags and id for [`link_create`]: without a place, in front of all other programs.
    pub fn flags(place: Option<Self>) -> (u32, u32) {
        const BEFORE: u32 = 1 << 3;
        const AFTER: u32 = 1 << 4;
        const BY_ID: u32 = 1 << 5;
        match place {
            None => (BEFORE, 0),
            Some(Self::Before(id)) => (BEFORE | BY_ID, id),
            Some(Self::After(id)) => (AFTER | BY_ID, id),
        }
    }
}

/// Ids of the programs that run at the hook `attach_type` of an interface, in their order.
pub fn programs(interface: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    #[repr(C)]
    struct Attributes {
        interface: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        reserved: u32,
        rest: [u64; 4],
    }
    const BPF_PROG_QUERY: libc::c_int = 16;
    // The kernel allows 64 (`BPF_MPROG_MAX`, include/linux/bpf_mprog.h).
    let mut ids = vec![0_u32; 64];
    let mut attributes = Attributes {
        interface,
        attach_type,
        query_flags: 0,
        attach_flags: 0,
        ids: address(ids.as_mut_ptr()),
        count: 64,
        reserved: 0,
        rest: [0; 4],
    };
    bpf(BPF_PROG_QUERY, &mut attributes)?;
    ids.truncate(attributes.count as usize);
    Ok(ids)
}

/// Swaps the program of a link, atomically. With `old`, only if the link still runs `old`.
pub fn link_update(
    link: BorrowedFd<'_>,
    new: BorrowedFd<'_>,
    old: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let flags = old.map_or(0, |_| BPF_F_REPLACE);
    let mut attributes = [raw(link), raw(new), flags, old.map_or(0, raw)];
    bpf(BPF_LINK_UPDATE, &mut attributes).map(drop)
}

/// Takes the program off the interface, even if another process holds the link.
pub fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    bpf(BPF_LINK_DETACH, &mut [raw(link)]).map(drop)
}

/// The kernel's information about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Id of the program that the link runs.
    pub program_id: u32,
    /// Index of the interface; 0 if the interface is gone.
    pub interface: u32,
    /// The hook: [`BPF_XDP`], [`BPF_TCX_INGRESS`] or [`BPF_TCX_EGRESS`].
    pub attach_type: u32,
}

/// Asks about a link of an XDP program, or of one in the network stack.
pub fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    #[repr(C)]
    struct Attributes {
        fd: u32,
        length: u32,
        info: u64,
    }
    const BPF_LINK_TYPE_XDP: u32 = 6;
    const BPF_LINK_TYPE_TCX: u32 = 11;

    // `struct bpf_link_info`, with room for the largest member of its union.
    let mut info = [0_u32; 16];
    let mut attributes = Attributes {
        fd: raw(link),
        length: u32::try_from(size_of_val(&info)).unwrap_or(0),
        info: address(&raw mut info),
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    let [kind, _id, program_id, _, interface, hook, ..] = info;
    let attach_type = match kind {
        BPF_LINK_TYPE_XDP => BPF_XDP,
        BPF_LINK_TYPE_TCX => hook,
        _ => return Err(io::Error::other("not a link to an interface")),
    };
    Ok(LinkInfo {
        program_id,
        interface,
        attach_type,
    })
}

fn address<T: ?Sized>(pointer: *const T) -> u64 {
    pointer.cast::<u8>().addr() as u64
}

/// A command on an object and a path: `bpf_attr` of `BPF_OBJ_*`.
fn at_path(command: libc::c_int, path: &Path, object: u32) -> io::Result<RawFd> {
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = Attributes {
        path: address(path.as_ptr()),
        fd: object,
        flags: 0,
    };
    bpf(command, &mut attributes)
}

/// Pins an object under `path` in a bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    at_path(BPF_OBJ_PIN, path, raw(object)).map(drop)
}

/// Opens the object that is pinned under `path`.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    at_path(BPF_OBJ_GET, path, 0).map(owned)
}

/// Makes a ring buffer of so many bytes.
pub fn create_ring(bytes: u32) -> io::Result<OwnedFd> {
    const BPF_MAP_CREATE: libc::c_int = 0;
    const BPF_MAP_TYPE_RINGBUF: u32 = 27;
    // Keys and values have no size, and there are no flags.
    bpf(BPF_MAP_CREATE, &mut [BPF_MAP_TYPE_RINGBUF, 0, 0, bytes, 0]).map(owned)
}

/// Removes the map at `index` of an array of maps.
pub fn remove_inner(array: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        reserved: u32,
        key: u64,
    }
    const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
    let mut attributes = Attributes {
        map: raw(array),
        reserved: 0,
        key: address(&raw const index),
    };
    bpf(BPF_MAP_DELETE_ELEM, &mut attributes).map(drop)
}

/// Marks all descriptors from 3 on as closed on exec, so that new processes do not inherit them.
pub fn close_others_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: nothing is closed in this process, and no memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// Reads all entries of a map with some thousands at once (Linux 5.6; of a trie 5.13). An entry that is changed
/// meanwhile may be missing, or be there twice.
pub fn read_all<K: aya::Pod, V: aya::Pod>(map: BorrowedFd<'_>) -> io::Result<Vec<(K, V)>> {
    #[repr(C)]
    struct Attributes {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map: u32,
        flags: [u64; 2],
    }
    const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
    const AT_ONCE: u32 = 4_096;
    // SAFETY: both types are plain bytes.
    let (key, value) = unsafe { (mem::zeroed::<K>(), mem::zeroed::<V>()) };
    let (mut keys, mut values) = (vec![key; AT_ONCE as usize], vec![value; AT_ONCE as usize]);
    // The kernel notes where it has stopped: a key, or the number of a bucket.
    let mut place = [0_u64; 8];
    let mut all = Vec::new();
    loop {
        let place_address = address(place.as_mut_ptr());
        let mut attributes = Attributes {
            in_batch: if all.is_empty() { 0 } else { place_address },
            out_batch: place_address,
            keys: address(keys.as_mut_ptr()),
            values: address(values.as_mut_ptr()),
            count: AT_ONCE,
            map: raw(map),
            flags: [0; 2],
        };
        let read = bpf(BPF_MAP_LOOKUP_BATCH, &mut attributes);
        let is_end = matches!(&read, Err(error) if error.raw_os_error() == Some(libc::ENOENT));
        if !is_end {
            read?;
        }
        let entries = keys.iter().copied().zip(values.iter().copied());
        all.extend(entries.take(attributes.count as usize));
        if is_end {
            return Ok(all);
        }
    }
}
