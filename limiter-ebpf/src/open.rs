//! Counts open connections by the kernel's own changes of the state of sockets (the tracepoint `inet_sock_set_state`), in a
//! map that the packets' program reads.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext, helpers::generated::bpf_probe_read_kernel, programs::RawTracePointContext,
};
use limiter_common::{
    abi::rules::LIMITS_MAX,
    open::{self, Changed, FULL, HANDSHAKE, LOST, WORDS},
    policy::protocols::TCP,
    table::{
        key::{Address, ipv4_words},
        word,
    },
};

use crate::{atomic::Word, constants, lent, maps::OPEN};

/// Families of sockets (include/linux/socket.h).
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// True if some key is at its bound.
#[inline(always)]
pub fn is_any_full() -> bool {
    line(0).is_some_and(|line| word::Word::load(open::Line::word(line, FULL)) != 0)
}

/// The open connections of the key with this tag in this line.
#[inline(always)]
pub fn connections(number: u32, tag: u64) -> u64 {
    line(number).map_or(0, |line| open::count_of(line, tag))
}

/// A line in a map value.
#[derive(Clone, Copy)]
struct InMap(*mut u64);

impl open::Line for InMap {
    type Word = Word;

    #[inline(always)]
    fn word(self, index: u32) -> Word {
        // SAFETY: an aligned word of the line, whose words are no fewer.
        unsafe { Word::at(self.0.add((index % WORDS) as usize)) }
    }
}

#[inline(always)]
fn line(number: u32) -> Option<InMap> {
    OPEN.get_ptr_mut(number).map(|line| InMap(line.cast()))
}

/// The peer and the local port of a socket.
#[repr(C)]
struct Connection {
    peer: Address,
    port: u32,
    opens: u32,
}

/// Takes a change of a socket's state.
#[inline(always)]
pub fn changed(context: &RawTracePointContext) {
    let arguments = context.as_ptr().cast::<u64>();
    // SAFETY: the tracepoint has three arguments: the socket and both states.
    let (socket, before, after) = unsafe {
        (
            arguments.read() as *const c_void,
            arguments.add(1).read() as u32,
            arguments.add(2).read() as u32,
        )
    };
    let opens = open::is_open(after);
    if opens == open::is_open(before) {
        return;
    }
    let Some(mut connection) = connection(socket) else {
        return;
    };
    connection.opens = opens.into();
    // A port that only the host's own connections have had does not count.
    if !is_served(connection.port as u16, before == HANDSHAKE) {
        return;
    }
    for index in 0..LIMITS_MAX {
        if index >= constants().limits_length {
            break;
        }
        if constants().bounds.limits >> index & 1 != 0 {
            connection_count(&raw const connection, index);
        }
    }
}

/// True if peers have connected to this local port. `now`: one connects now.
#[inline(always)]
fn is_served(port: u16, now: bool) -> bool {
    let (number, index, bit) = open::port_place(port);
    let Some(line) = line(number) else {
        return false;
    };
    let word = open::Line::word(line, index);
    for _ in 0..4 {
        let ports = word::Word::load(word);
        if ports & bit != 0 || now && word::Word::swap(word, ports, ports | bit) {
            return true;
        }
        if !now {
            break;
        }
    }
    false
}

/// Counts a connection for the limit with this index. A global function, which the verifier checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn connection_count(connection: *const Connection, index: u32) -> u32 {
    lent!(connection);
    let port = connection.port as u16;
    let Some((place, bound)) = open::place_of(constants(), index, &connection.peer, port) else {
        return 0;
    };
    let (Some(line), Some(totals)) = (line(place.line), line(0)) else {
        return 0;
    };
    match open::change(line, place.tag, connection.opens != 0) {
        Changed::From(before, after) => {
            let change = open::change_of_full(before, after, bound.most);
            if change != 0 {
                word::Word::add(open::Line::word(totals, FULL), change);
            }
        }
        Changed::Not if connection.opens != 0 => {
            word::Word::add(open::Line::word(totals, LOST), 1);
        }
        Changed::Not => {}
    }
    1
}

/// Reads a socket of TCP in the interface's network namespace.
#[inline(always)]
fn connection(socket: *const c_void) -> Option<Connection> {
    let offsets = &constants().bounds.offsets;
    let namespace: u64 = read(socket, offsets.namespace)?;
    let cookie: u64 = read(namespace as *const c_void, offsets.cookie)?;
    let protocol: u16 = read(socket, offsets.protocol)?;
    if cookie != constants().bounds.namespace || u32::from(protocol) != TCP {
        return None;
    }
    let family: u16 = read(socket, offsets.family)?;
    let port: u16 = read(socket, offsets.port)?;
    let peer = match family {
        AF_INET => Address::ipv4(read(socket, offsets.ipv4)?),
        AF_INET6 => {
            let words: [u32; 4] = read(socket, offsets.ipv6)?;
            let [first, second, third, last] = words;
            if (first | second) == 0 && third == 0xffff_u32.to_be() {
                Address::ipv4(last)
            } else {
                let [low, _] = ipv4_words(first);
                let [third, _] = ipv4_words(third);
                Address::ipv6([joined(low, second), joined(third, last)])
            }
        }
        _ => return None,
    };
    Some(Connection {
        peer,
        port: u16::from_be(port).into(),
        opens: 0,
    })
}

/// Two words as they lie in memory, the first from [`ipv4_words`].
#[inline(always)]
const fn joined(first: u64, second: u32) -> u64 {
    if cfg!(target_endian = "big") {
        first | second as u64
    } else {
        first | (second as u64) << u32::BITS
    }
}

/// Reads a field in the kernel's memory. `T` is an integer, or an array of them.
#[inline(always)]
fn read<T: Copy + Default>(base: *const c_void, offset: u32) -> Option<T> {
    let mut value = T::default();
    // SAFETY: the helper checks the address, and writes no more than the value.
    let result = unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            size_of::<T>() as u32,
            base.byte_add(offset as usize),
        )
    };
    (result == 0).then_some(value)
}
