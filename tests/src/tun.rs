//! Interfaces whose other end is this process: tun devices, without Ethernet headers, and tap devices, with them.
#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    time::{Duration, Instant},
};

use crate::{
    hosts::on,
    model::merged::Merged,
    offload::{self, offloaded},
    testbed::Host,
};

/// A tun or tap device in the namespace of a host.
#[derive(Debug)]
pub struct Tun {
    file: File,
    /// Bytes before each packet: the offloads that the other end has left to do, `struct virtio_net_hdr`.
    header: usize,
}

impl Tun {
    /// Makes the tun device `name`.
    pub fn new(host: &Host, name: &str) -> io::Result<Self> {
        Self::of(libc::IFF_TUN, 0, host, name)
    }

    /// Makes the tap device `name`, as a host does for a virtual machine.
    pub fn tap(host: &Host, name: &str) -> io::Result<Self> {
        let flags = libc::IFF_TAP | libc::IFF_VNET_HDR;
        Self::of(flags, offload::HEADER, host, name)
    }

    fn of(flags: libc::c_int, header: usize, host: &Host, name: &str) -> io::Result<Self> {
        let name = name.to_owned();
        on(host, move || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open("/dev/net/tun")?;
            let mut request = libc::ifreq {
                ifr_name: [0; libc::IFNAMSIZ],
                ifr_ifru: libc::__c_anonymous_ifr_ifru {
                    ifru_flags: (flags | libc::IFF_NO_PI) as i16,
                },
            };
            for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *place = libc::c_char::from_ne_bytes([byte]);
            }
            // SAFETY: the request is valid during the call.
            let result =
                unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
            match result {
                0 => Ok(Self { file, header }),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Lets a packet arrive on the interface.
    pub fn arrive(&self, packet: &[u8]) {
        let header = vec![0; self.header];
        (&self.file).write_all(&[&header, packet].concat()).unwrap();
    }

    /// Lets a merged packet arrive on a tap, as the card of a virtual machine does that leaves it to the host to cut it.
    pub fn arrive_merged(&self, merged: &Merged) {
        (&self.file).write_all(&offloaded(merged)).unwrap();
    }

    /// The packets that the interface has sent, until it sends none for `silence`.
    pub fn sent(&self, silence: Duration) -> Vec<Vec<u8>> {
        let (mut packets, mut last) = (Vec::new(), Instant::now());
        let mut buffer = [0; 2_048];
        while last.elapsed() < silence {
            match (&self.file).read(&mut buffer) {
                Ok(length) => {
                    packets.push(buffer[self.header..length].to_vec());
                    last = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        packets
    }
}
