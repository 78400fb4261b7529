//! Whole frames on the wire: a packet socket that sends and receives what tests make up.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use limiter_user::lab::Host;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

/// A packet socket on a host's `eth0`.
#[derive(Debug)]
pub struct Raw(OwnedFd);

/// `ETH_P_ALL`, in network byte order, as packet(7) wants it.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

impl Raw {
    /// Opens one.
    #[must_use]
    pub fn open(host: &Host) -> Self {
        host.namespace
            .run(|| Self::bind(host.index))
            .unwrap()
            .unwrap()
    }

    fn bind(index: u32) -> io::Result<Self> {
        // SAFETY: no pointers are passed; the descriptor that comes back is ours alone.
        let socket = unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                ALL.into(),
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ALL;
        address.sll_ifindex = i32::try_from(index).unwrap();
        // SAFETY: the address is valid, and of the size that is passed.
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
        // Room for a second's worth: nothing that arrives may be lost here.
        setsockopt(&socket, RcvBufForce, &(64 << 20))?;
        Ok(Self(socket))
    }

    /// Sends one frame.
    pub fn send(&self, frame: &[u8]) {
        loop {
            // SAFETY: the buffer is valid for its length.
            let sent =
                unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            if usize::try_from(sent) == Ok(frame.len()) {
                return;
            }
            let error = io::Error::last_os_error();
            assert_eq!(
                error.raw_os_error(),
                Some(libc::ENOBUFS),
                "sending: {error}"
            );
        }
    }

    /// Receives frames until none has come for `silence`; outgoing ones are not among them.
    #[must_use]
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
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        frames
    }

    /// The next frame, and its `sll_pkttype`.
    fn receive_one(&self) -> Option<(Vec<u8>, u8)> {
        let mut buffer = vec![0_u8; 65_536];
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
        buffer.truncate(usize::try_from(received).ok()?);
        Some((buffer, from.sll_pkttype))
    }
}
