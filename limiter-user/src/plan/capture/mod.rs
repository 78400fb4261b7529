//! Captures: packets and their times, from a pcap or pcapng file; [`Writer`] writes pcapng.
//!
//! Packets are read one at a time, in memory that does not depend on the capture's length. Times never go back, like a
//! limiter's clock, and gaps are bounded ([`Times`]). Packets that cannot be read are counted ([`Unread`]).

mod clock;
mod framing;
mod input;
mod interface;
mod layout;
pub mod link;
mod packet;
mod unread;
mod wireless;
mod writer;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Result, anyhow};
use pcap_parser::PcapError;

pub use clock::Times;
pub use link::{Frame, Link};
pub use packet::Packet;
pub use unread::Unread;
pub use writer::{Interface, Writer, Written};

use clock::Clock;
use input::{BUFFER_MAX, Blocks};
use layout::Layout;

/// An open capture.
pub struct Capture {
    /// The name in messages.
    pub name: String,
    blocks: Blocks,
    layout: Layout,
    clock: Clock,
    buffer: usize,
    /// Number of packets so far.
    pub packets: u64,
    /// Packets of these that cannot be read.
    pub unread: BTreeMap<Unread, u64>,
    /// The state of a capture that ended too early: cut off within a packet or a block, damaged, or unreadable.
    pub cut: Option<&'static str>,
}

impl Capture {
    /// Opens the file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::new("standard input", io::stdin());
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|why| {
            anyhow!("{name} cannot be read ({why}): check the path and its permissions")
        })?;
        Self::new(&name, file)
    }

    /// Reads from `from`. Messages call it `name`.
    pub fn new(name: &str, from: impl Read + Send + 'static) -> Result<Self> {
        let (blocks, buffer) = input::begin(name, from)?;
        Ok(Self {
            name: name.to_owned(),
            blocks,
            layout: Layout::default(),
            clock: Clock::default(),
            buffer,
            packets: 0,
            unread: BTreeMap::new(),
            cut: None,
        })
    }

    /// Times so far that were not taken from the capture.
    pub fn times(&self) -> Times {
        self.clock.times
    }

    /// Number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.blocks.consumed() as u64
    }

    /// The next packet as the file has it; none at the end.
    fn find(&mut self) -> Option<packet::Read> {
        loop {
            let read = |(size, block)| (size, self.layout.read(&block));
            let error = match self.blocks.next().map(read).map_err(|e| e.to_owned_vec()) {
                Ok((size, packet)) => {
                    self.blocks.consume(size);
                    if packet.is_some() {
                        return packet;
                    }
                    continue;
                }
                Err(PcapError::Eof) => return None,
                Err(error) => error,
            };
            // The parser also returns `Incomplete` for a block that is complete but contradicts itself.
            if let Some((size, lost)) = self.layout.damaged(self.blocks.data()) {
                self.blocks.consume(size);
                if lost.is_some() {
                    return lost;
                }
                continue;
            }
            match error {
                PcapError::Incomplete(_) if self.blocks.refill().is_ok() => {}
                PcapError::BufferTooSmall if self.buffer < BUFFER_MAX => {
                    self.buffer *= 2;
                    self.blocks.grow(self.buffer);
                }
                // The reader also returns this after the last byte was consumed.
                PcapError::UnexpectedEof if self.blocks.data().is_empty() => return None,
                error => {
                    self.cut = Some(match error {
                        PcapError::UnexpectedEof => "cut off",
                        PcapError::Incomplete(_) | PcapError::ReadError => "unreadable",
                        _ => "damaged",
                    });
                    return None;
                }
            }
        }
    }
}

impl Iterator for Capture {
    type Item = Packet;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.find()?;
            self.packets += 1;
            match found {
                Ok(packet) => {
                    return Some(Packet {
                        number: self.packets,
                        time: self.clock.see(packet.captured_at),
                        ..packet
                    });
                }
                Err(why) => *self.unread.entry(why).or_default() += 1,
            }
        }
    }
}
