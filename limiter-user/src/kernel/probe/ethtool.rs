//! Questions to drivers by the ethtool ioctl: anyone may ask them. Structures and numbers are those of
//! include/uapi/linux/ethtool.h. A driver that has no answer gives none.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::kernel::error::{Error, Result};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`: the name of the driver, and what is of no use here.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}
const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct RawChannels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}
const _: () = assert!(size_of::<RawChannels>() == 36);

/// Receive queues: those of their own, and those combined with a send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Receive queues in use, of their own.
    pub rx: u32,
    /// How many there may be.
    pub max_rx: u32,
    /// Combined ones in use.
    pub combined: u32,
    /// How many there may be.
    pub max_combined: u32,
}

/// An interface to ask about.
pub struct Ethtool {
    socket: OwnedFd,
    name: [u8; libc::IFNAMSIZ],
}

impl Ethtool {
    /// For the interface called `name` in this network namespace.
    pub fn new(name: &str) -> Result<Self> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(|error| Error::system("opening a socket", error.into()))?;
        let mut padded = [0; libc::IFNAMSIZ];
        let bytes = name.as_bytes();
        let room = padded[..libc::IFNAMSIZ - 1].get_mut(..bytes.len());
        room.ok_or_else(|| Error::NoInterface(name.to_owned()))?
            .copy_from_slice(bytes);
        Ok(Self {
            socket,
            name: padded,
        })
    }

    /// Name of the driver.
    pub fn driver(&self) -> Option<String> {
        let mut info = DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            rest: [0; 160],
        };
        self.ask(&mut info).ok()?;
        text(&info.driver)
    }

    /// The receive queues.
    pub fn channels(&self) -> Option<Channels> {
        let mut raw = RawChannels {
            command: ETHTOOL_GCHANNELS,
            ..RawChannels::default()
        };
        self.ask(&mut raw).ok()?;
        Some(Channels {
            rx: raw.rx,
            max_rx: raw.max_rx,
            combined: raw.combined,
            max_combined: raw.max_combined,
        })
    }

    /// Whether the card merges packets.
    pub fn lro(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GFLAGS)? & ETH_FLAG_LRO != 0)
    }

    /// Whether the card takes the outer VLAN tag off.
    pub fn vlan(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GFLAGS)? & ETH_FLAG_RXVLAN != 0)
    }

    /// Whether the stack merges packets.
    pub fn gro(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GGRO)? != 0)
    }

    fn value(&self, command: u32) -> Option<u32> {
        let mut value = Value { command, data: 0 };
        self.ask(&mut value).ok()?;
        Some(value.data)
    }

    /// One request. `T` must be the structure of the command that its first word names.
    fn ask<T>(&self, data: &mut T) -> io::Result<()> {
        /// `struct ifreq`, with the pointer of its union, and room for the largest of that.
        #[repr(C)]
        struct Request<T> {
            name: [u8; libc::IFNAMSIZ],
            data: *mut T,
            rest: [u8; 16],
        }
        let mut request = Request {
            name: self.name,
            data,
            rest: [0; 16],
        };
        // SAFETY: the request is as large as a `struct ifreq` or larger, and lives through the call; its
        // pointer is to an exclusively borrowed structure of the command in its first word, of which the
        // kernel writes no more than that command's size: all of them above are written out in full.
        let result = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &raw mut request,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// A text that ends with a zero byte; none where it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|byte| *byte == 0).next()?;
    let text = String::from_utf8_lossy(text);
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_end_with_zero() {
        assert_eq!(super::text(b"veth\0\0x").as_deref(), Some("veth"));
        assert_eq!(super::text(b"full").as_deref(), Some("full"));
        assert_eq!(super::text(b"\0\0"), None);
    }
}
