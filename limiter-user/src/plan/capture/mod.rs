//! Captures: packets and their times, from a pcap or pcapng file; [`Writer`] writes pcapng.
//!
//! Packets are read one at a time, in memory that does not depend on the capture's length. Times never go back, like a
//! limiter's clock: a packet with an earlier time gets the previous packet's.

mod layout;
pub mod link;
mod writer;

use std::{
    fs::File,
    io::{self, Cursor, Read},
    path::Path,
};

use anyhow::{Result, anyhow, bail};
use pcap_parser::{PcapError, create_reader, traits::PcapReaderIterator};

pub use link::{Frame, Link};
pub use writer::{Interface, Writer};

use layout::Layout;

/// Initial size of the buffer, in bytes: the longest packet that capture tools write, with its block.
const BUFFER: usize = 512 << 10;
/// Maximum size of the buffer, in bytes. Some blocks without packets are long. A longer block is damaged.
const BUFFER_MAX: usize = 16 << 20;

/// Bytes of the first read. The parser needs the whole first block in it, but a pipe delivers little at a time.
const FIRST: u64 = 64 << 10;

/// The parser does not pass the system's reason on.
const FAILED: &str = "reading failed";

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The packet's number in the capture, from 1.
    pub number: u64,
    /// Arrival time, in nanoseconds since 1970 according to the capture. Never before the previous packet.
    pub time: u64,
    /// The frame that a driver would have shown.
    pub frame: Frame,
    /// True if the capture has only a part of the packet.
    pub is_cut: bool,
    /// True if the host sent the packet, according to the capture.
    pub outgoing: bool,
}

/// An open capture.
pub struct Capture {
    name: String,
    reader: Box<dyn PcapReaderIterator + Send>,
    layout: Layout,
    /// The time of the last packet.
    last: u64,
    buffer: usize,
    /// Number of packets read so far.
    pub packets: u64,
    /// The state of a capture that ended too early: cut off within a packet or a block, or damaged.
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
    pub fn new(name: &str, mut from: impl Read + Send + 'static) -> Result<Self> {
        let mut first = Vec::new();
        if let Err(why) = from.by_ref().take(FIRST).read_to_end(&mut first) {
            return Err(unread(name, why));
        }
        let reader = match create_reader(BUFFER, Cursor::new(first).chain(from)) {
            Ok(reader) => reader,
            Err(PcapError::ReadError) => return Err(unread(name, FAILED)),
            Err(PcapError::Eof) => {
                bail!("{name} is empty: write a capture to it, as with tcpdump -w")
            }
            Err(PcapError::Incomplete(_)) => {
                bail!("{name} ends within the header of the capture: name a complete capture")
            }
            Err(_) => bail!(
                "{name} is neither pcap nor pcapng: name a file that tcpdump -w has written (a compressed file through a pipe: gunzip -c FILE | limiter ... -)"
            ),
        };
        Ok(Self {
            name: name.to_owned(),
            reader,
            layout: Layout::default(),
            last: 0,
            buffer: BUFFER,
            packets: 0,
            cut: None,
        })
    }

    /// The next packet as the file has it; none at the end.
    fn find(&mut self) -> Result<Option<Packet>> {
        loop {
            let read = |(size, block)| (size, self.layout.read(&block));
            match self.reader.next().map(read).map_err(|e| e.to_owned_vec()) {
                Ok((size, packet)) => {
                    self.reader.consume(size);
                    let (name, number) = (&self.name, self.packets + 1);
                    if let Some(packet) = packet {
                        let named = |why| anyhow!("{name}: packet {number} {why}");
                        return packet.map(Some).map_err(named);
                    }
                }
                Err(PcapError::Incomplete(_)) => {
                    if self.reader.refill().is_err() {
                        return Err(unread(&self.name, FAILED));
                    }
                }
                Err(PcapError::BufferTooSmall) if self.buffer < BUFFER_MAX => {
                    self.buffer *= 2;
                    self.reader.grow(self.buffer);
                }
                Err(PcapError::Eof) => return Ok(None),
                // The reader also returns this after the last byte was consumed.
                Err(PcapError::UnexpectedEof) if self.reader.data().is_empty() => return Ok(None),
                Err(error) => {
                    let is_short = matches!(error, PcapError::UnexpectedEof);
                    self.cut = Some(if is_short { "cut off" } else { "damaged" });
                    return Ok(None);
                }
            }
        }
    }
}

impl Iterator for Capture {
    type Item = Result<Packet>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find().transpose()?;
        Some(found.map(|packet| {
            self.packets += 1;
            self.last = self.last.max(packet.time);
            Packet {
                number: self.packets,
                time: self.last,
                ..packet
            }
        }))
    }
}

fn unread(name: &str, why: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{name} cannot be read ({why}): name a pcap or pcapng file, or - for standard input")
}
