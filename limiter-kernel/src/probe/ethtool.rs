//! Questions to drivers by the ethtool ioctl, which needs no privilege. Numbers and layouts are from
//! include/uapi/linux/ethtool.h. A driver without an answer gives `None`.

#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::{Error, Failed, Result};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Words of `struct ethtool_value`: the command and its answer.
const VALUE: usize = 2;
/// Words of `struct ethtool_drvinfo`: the command, 32 bytes of the driver's name, and others.
const DRIVER_INFO: usize = 49;
/// Words of `struct ethtool_channels`: the command, then the most and the present number of channels, each for rx, tx,
/// other, combined.
const CHANNELS: usize = 9;

/// Receive queues: separate ones, and those combined with a send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Separate receive queues in use.
    pub rx: u32,
    /// Combined queues in use.
    pub combined: u32,
    /// The most combined queues.
    pub max_combined: u32,
}

/// An interface to ask about.
pub struct Ethtool {
    socket: OwnedFd,
    name: [u8; libc::IFNAMSIZ],
}

impl Ethtool {
    /// Prepares questions about the interface called `name` in this network namespace.
    pub fn new(name: &str) -> Result<Self> {
        let (family, kind) = (AddressFamily::Inet, SockType::Datagram);
        let socket =
            socket(family, kind, SockFlag::SOCK_CLOEXEC, None).failed("opening a socket")?;
        let mut padded = [0; libc::IFNAMSIZ];
        let room = padded[..libc::IFNAMSIZ - 1].get_mut(..name.len());
        room.ok_or_else(|| Error::NoInterface(name.to_owned()))?
            .copy_from_slice(name.as_bytes());
        Ok(Self {
            socket,
            name: padded,
        })
    }

    /// The driver's name.
    pub fn driver(&self) -> Option<String> {
        let words: [u32; DRIVER_INFO] = self.ask(ETHTOOL_GDRVINFO)?;
        let name: Vec<u8> = words[1..9]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }

    /// The receive queues.
    pub fn channels(&self) -> Option<Channels> {
        let [_, _, _, _, max_combined, rx, _, _, combined]: [u32; CHANNELS] =
            self.ask(ETHTOOL_GCHANNELS)?;
        Some(Channels {
            rx,
            combined,
            max_combined,
        })
    }

    /// Returns true if the card takes the outer VLAN tag off frames.
    pub fn strips_vlan(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GFLAGS)? & ETH_FLAG_RXVLAN != 0)
    }

    /// Returns true if the card merges packets.
    pub fn lro(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GFLAGS)? & ETH_FLAG_LRO != 0)
    }

    /// Returns true if the stack merges packets.
    pub fn gro(&self) -> Option<bool> {
        Some(self.value(ETHTOOL_GGRO)? != 0)
    }

    fn value(&self, command: u32) -> Option<u32> {
        let [_, value]: [u32; VALUE] = self.ask(command)?;
        Some(value)
    }

    /// Sends one request. `N` must be the number of words of the command's structure.
    fn ask<const N: usize>(&self, command: u32) -> Option<[u32; N]> {
        /// `struct ifreq`, with the pointer of its union, and room for the largest member.
        #[repr(C)]
        struct Request {
            name: [u8; libc::IFNAMSIZ],
            data: *mut u32,
            rest: [u8; 16],
        }
        let mut words = [0; N];
        words[0] = command;
        let mut request = Request {
            name: self.name,
            data: words.as_mut_ptr(),
            rest: [0; 16],
        };
        // SAFETY: the request is as large as a `struct ifreq` or larger, and lives through the call; its pointer is to
        // words that live as long, as many as the structure of the command has: the kernel writes no more than those.
        let result = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &raw mut request,
            )
        };
        (result == 0).then_some(words)
    }
}
