//! Sends and receives arbitrary frames by a packet socket.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use crate::{
    eventually,
    processes::no_packet_waits,
    testbed::{Host, Namespace},
};
use nix::{
    net::if_::if_nametoindex,
    sys::socket::{setsockopt, sockopt::RcvBufForce},
};

/// A packet socket on a host's `eth0`.
#[derive(Debug)]
pub struct Raw(OwnedFd);

/// `ETH_P_ALL` in network byte order, as packet(7) requires.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

impl Raw {
    /// Opens a socket.
    pub fn open(host: &Host) -> Self {
        host.namespace
            .run(|| Self::bind(host.index, ALL))
            .unwrap()
            .unwrap()
    }

    /// Opens a socket that receives nothing.
    pub fn to_send(host: &Host) -> Self {
        host.namespace
            .run(|| Self::bind(host.index, 0))
            .unwrap()
            .unwrap()
    }

    /// Opens a socket that sends merged packets, and receives nothing.
    pub fn to_send_merged(host: &Host) -> Self {
        const PACKET_VNET_HDR: libc::c_int = 15;
        let socket = Self::to_send(host);
        set_option(
            &socket.0,
            libc::SOL_PACKET,
            PACKET_VNET_HDR,
            &1_u32.to_ne_bytes(),
        )
        .unwrap();
        socket
    }

    fn bind(index: u32, protocol: u16) -> io::Result<Self> {
        // SAFETY: no pointers are passed; the returned descriptor is ours alone.
        let socket = unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol.into(),
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = i32::try_from(index).unwrap();
        // SAFETY: the address is valid, and of the passed size.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        // The buffer has room for the frames of one second, so that none is lost.
        setsockopt(&socket, RcvBufForce, &(64 << 20))?;
        Ok(Self(socket))
    }

    /// Opens a socket on an interface in a namespace.
    pub fn at(namespace: &Namespace, name: &str) -> io::Result<Self> {
        namespace.run(|| Self::bind(if_nametoindex(name)?, ALL))?
    }

    /// Opens a socket that sends without a queue: a frame that the interface cannot take at once is lost.
    pub fn on(namespace: &Namespace, name: &str) -> io::Result<Self> {
        let socket = Self::at(namespace, name)?;
        set_option(
            &socket.0,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            &1_u32.to_ne_bytes(),
        )?;
        Ok(socket)
    }

    /// The frames received until now, without waiting.
    pub fn arrived(&self) -> Vec<Vec<u8>> {
        let frames = std::iter::from_fn(|| self.receive_one());
        frames
            .filter(|(_, kind)| *kind != libc::PACKET_OUTGOING)
            .map(|(frame, _)| frame)
            .collect()
    }

    /// Sends one frame.
    pub fn send(&self, frame: &[u8]) {
        while let Err(error) = self.try_send(frame) {
            assert_eq!(
                error.raw_os_error(),
                Some(libc::ENOBUFS),
                "sending: {error}"
            );
        }
    }

    /// Sends one frame. Fails if the interface is gone or does not take it.
    pub fn try_send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the buffer is valid for its length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        match usize::try_from(sent) {
            Ok(length) if length == frame.len() => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Receives incoming frames until none has come for `silence`.
    pub fn receive(&self, silence: Duration) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut last = Instant::now();
        while last.elapsed() < silence {
            match self.receive_one() {
                Some((frame, libc::PACKET_OUTGOING)) => drop(frame),
                Some((frame, _)) => {
                    frames.push(frame);
                    last = Instant::now();
                }
                None => {
                    std::thread::sleep(Duration::from_millis(1));
                    if last.elapsed() >= silence && !no_packet_waits() {
                        last = Instant::now();
                    }
                }
            }
        }
        frames
    }

    /// Receives frames until `last`. Returns the frames before it; none if `last` does not come in time.
    pub fn receive_until(&self, last: &[u8], patience: Duration) -> Option<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        let start = Instant::now();
        loop {
            match self.receive_one() {
                Some((_, libc::PACKET_OUTGOING)) => {}
                Some((frame, _)) if frame == last => return Some(frames),
                Some((frame, _)) => frames.push(frame),
                None if start.elapsed() > patience => return None,
                None => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    /// The next frame, and its `sll_pkttype`.
    fn receive_one(&self) -> Option<(Vec<u8>, u8)> {
        let mut buffer = vec![0_u8; 65_536];
        let (length, kind) = self.receive_into(&mut buffer)?;
        buffer.truncate(length);
        Some((buffer, kind))
    }

    /// Reads the next frame into `buffer`. Returns its length and its `sll_pkttype`.
    pub fn receive_into(&self, buffer: &mut [u8]) -> Option<(usize, u8)> {
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: buffer, address and its length are valid for the call.
        let received = unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        Some((usize::try_from(received).ok()?, from.sll_pkttype))
    }

    /// Frames lost since the last call because the socket had no room.
    pub fn lost(&self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the structure and its length are valid for the call.
        let read = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        assert_eq!(read, 0, "{}", io::Error::last_os_error());
        statistics.tp_drops.into()
    }
}

/// Opens a socket of SCTP over IPv4, one to one.
pub fn sctp() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed; the returned descriptor is ours alone.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_INET, kind, libc::IPPROTO_SCTP);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets an option of a socket to these bytes.
pub fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the value is valid for its length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as u32,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Time without a frame after which no answer comes any more.
const SILENCE: Duration = Duration::from_millis(100);

/// Sends a frame on the host's interface, and returns the answers. The host's own multicast reports are none.
pub fn answers(host: &Host, frame: &[u8]) -> Vec<Vec<u8>> {
    let wire = Raw::open(host);
    wire.send(frame);
    unicast(&wire)
}

/// [`answers`] to a frame that has some. A CPU of an emulated machine may stand still for seconds.
pub fn awaited_answers(host: &Host, frame: &[u8]) -> Vec<Vec<u8>> {
    let wire = Raw::open(host);
    wire.send(frame);
    let mut frames = Vec::new();
    eventually("an answer", || {
        frames.extend(unicast(&wire));
        !frames.is_empty()
    });
    frames
}

fn unicast(wire: &Raw) -> Vec<Vec<u8>> {
    let mut frames = wire.receive(SILENCE);
    frames.retain(|frame| frame[0] & 1 == 0);
    frames
}
