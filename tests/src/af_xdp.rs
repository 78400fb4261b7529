//! An AF_XDP socket (`AF_XDP`, Linux 4.18) as other programs use it: an XDP program gives it all packets of a queue, past
//! the network stack.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    foreign::{Kind, instruction, load},
    hosts::on,
    testbed::Host,
};

/// Size of a frame's memory, and number of frames.
const CHUNK: usize = 4_096;
const CHUNKS: usize = 64;

/// The socket, its memory, and the program that fills it.
pub struct Xsk {
    socket: OwnedFd,
    memory: Mapping,
    received: Ring,
    /// The program's id is in netlink's answer once it is attached.
    pub program: OwnedFd,
    _sockets: OwnedFd,
}

/// Mapped memory.
struct Mapping(*mut u8, usize);

/// A ring that the kernel shares.
struct Ring {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
}

impl Xsk {
    /// Opens a socket for the first queue of the host's interface, and loads a program that hands all packets to it, or
    /// to the network stack if there is no socket.
    pub fn open(host: &Host, kind: Kind) -> Self {
        on(host, || Self::try_open(host.index, kind)).unwrap()
    }

    fn try_open(interface: u32, kind: Kind) -> io::Result<Self> {
        // SAFETY: no pointer is passed; the descriptor is ours alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            OwnedFd::from_raw_fd(checked(i64::from(fd))?)
        };
        let fd = socket.as_raw_fd();
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = Mapping::new(CHUNK * CHUNKS, anonymous, -1, 0)?;
        let registered = libc::xdp_umem_reg_v1 {
            addr: memory.0.addr() as u64,
            len: memory.1 as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
        };
        set(fd, libc::XDP_UMEM_REG, &registered)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
        ] {
            set(fd, ring, &(CHUNKS as u32))?;
        }
        let offsets = offsets(fd)?;
        let map = |offsets: libc::xdp_ring_offset, entry: usize, page: u64| {
            let length = offsets.desc as usize + CHUNKS * entry;
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            let mapping = Mapping::new(length, flags, fd, page as libc::off_t)?;
            Ok::<_, io::Error>(Ring { mapping, offsets })
        };
        let fill = map(offsets.fr, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let received = map(
            offsets.rx,
            size_of::<libc::xdp_desc>(),
            libc::XDP_PGOFF_RX_RING as u64,
        )?;
        for chunk in 0..CHUNKS {
            // SAFETY: the ring has as many entries, of this type.
            unsafe { fill.entry::<u64>(chunk).write((chunk * CHUNK) as u64) };
        }
        fill.producer().store(CHUNKS as u32, Ordering::Release);
        bind(fd, interface)?;
        let sockets = socket_map(fd)?;
        let program = load(&instructions(sockets.as_raw_fd()), kind)?;
        Ok(Self {
            socket,
            memory,
            received,
            program,
            _sockets: sockets,
        })
    }

    /// The packets that have arrived since the socket was opened, at most as many as it has room for.
    pub fn packets(&self) -> Vec<Vec<u8>> {
        let _open = &self.socket;
        let count = self.received.producer().load(Ordering::Acquire) as usize;
        let packet = |number| {
            // SAFETY: the kernel has filled so many entries, which name parts of the memory.
            unsafe {
                let found = self.received.entry::<libc::xdp_desc>(number).read();
                let start = self.memory.0.add(found.addr as usize);
                std::slice::from_raw_parts(start, found.len as usize).to_vec()
            }
        };
        (0..count).map(packet).collect()
    }
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(length: usize, flags: i32, fd: RawFd, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place of new memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, fd, offset) };
        match start == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self(start.cast(), length)),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nobody else refers to it.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

impl Ring {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the kernel has an aligned counter there, which lives as long as the mapping.
        unsafe { &*self.mapping.0.add(self.offsets.producer as usize).cast() }
    }

    fn entry<T>(&self, number: usize) -> *mut T {
        let entries = self.mapping.0.wrapping_add(self.offsets.desc as usize);
        entries.cast::<T>().wrapping_add(number)
    }
}

fn checked(result: i64) -> io::Result<RawFd> {
    match RawFd::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set<T>(fd: RawFd, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for its length during the call.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_XDP,
            option,
            ptr::from_ref(value).cast(),
            length,
        )
    };
    checked(result.into()).map(drop)
}

fn offsets(fd: RawFd) -> io::Result<libc::xdp_mmap_offsets> {
    let mut length = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the structure has only numbers, and the kernel writes no more than its length.
    unsafe {
        let mut offsets: libc::xdp_mmap_offsets = mem::zeroed();
        let value = (&raw mut offsets).cast();
        let option = libc::XDP_MMAP_OFFSETS;
        checked(libc::getsockopt(fd, libc::SOL_XDP, option, value, &raw mut length).into())?;
        Ok(offsets)
    }
}

fn bind(fd: RawFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: interface,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the address is valid for its length during the call.
    checked(unsafe { libc::bind(fd, (&raw const address).cast(), length) }.into()).map(drop)
}

/// Makes a map with this socket for the first queue.
fn socket_map(socket: RawFd) -> io::Result<OwnedFd> {
    const BPF_MAP_CREATE: i32 = 0;
    const BPF_MAP_UPDATE_ELEM: i32 = 2;
    const BPF_MAP_TYPE_XSKMAP: u32 = 17;
    static QUEUE: u32 = 0;
    #[repr(C)]
    struct Update {
        map: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    /// Calls `bpf(2)`.
    fn bpf<T>(command: i32, attributes: &T) -> io::Result<RawFd> {
        let length = size_of::<T>();
        // SAFETY: the attributes are valid for their size, and so are their pointers.
        checked(unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), length) })
    }
    let map = bpf(BPF_MAP_CREATE, &[BPF_MAP_TYPE_XSKMAP, 4, 4, 1])?;
    // SAFETY: the descriptor is ours alone.
    let map = unsafe { OwnedFd::from_raw_fd(map) };
    let update = Update {
        map: map.as_raw_fd() as u32,
        key: (&raw const QUEUE).addr() as u64,
        value: (&raw const socket).addr() as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &update)?;
    Ok(map)
}

/// Redirects to the socket of the packet's queue, or passes.
fn instructions(sockets: RawFd) -> Vec<[u8; 8]> {
    const PASS: i32 = 2;
    const REDIRECT_MAP: i32 = 51;
    vec![
        instruction(0x61, (1, 2), 16, 0),      // r2 = rx_queue_index
        instruction(0x18, (1, 1), 0, sockets), // r1 = map
        instruction(0, (0, 0), 0, 0),
        instruction(0xb7, (0, 3), 0, PASS), // r3 = XDP_PASS
        instruction(0x85, (0, 0), 0, REDIRECT_MAP), // r0 = redirect_map(r1, r2, r3)
        instruction(0x95, (0, 0), 0, 0),    // exit
    ]
}
