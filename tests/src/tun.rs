//! A tun device: an interface without Ethernet headers, whose other end is this process.
#![allow(unsafe_code, reason = "see docs/unsafe.md")]

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    time::{Duration, Instant},
};

use crate::{hosts::on, testbed::Host};

/// A tun device in the namespace of a host.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes the device `name`.
    pub fn new(host: &Host, name: &str) -> io::Result<Self> {
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
                    ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as i16,
                },
            };
            for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *place = libc::c_char::from_ne_bytes([byte]);
            }
            // SAFETY: the request is valid during the call.
            let result =
                unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
            match result {
                0 => Ok(Self(file)),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Lets a packet arrive on the interface.
    pub fn arrive(&self, packet: &[u8]) {
        (&self.0).write_all(packet).unwrap();
    }

    /// The packets that the interface has sent, until it sends none for `silence`.
    pub fn sent(&self, silence: Duration) -> Vec<Vec<u8>> {
        let (mut packets, mut last) = (Vec::new(), Instant::now());
        let mut buffer = [0; 2_048];
        while last.elapsed() < silence {
            match (&self.0).read(&mut buffer) {
                Ok(length) => {
                    packets.push(buffer[..length].to_vec());
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
