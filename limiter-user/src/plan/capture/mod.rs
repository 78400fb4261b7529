//! Captures: packets and their times, from a pcap or pcapng file.
//!
//! Packets are read one at a time, in memory that does not depend on the capture's length. Times never go back, like a
//! limiter's clock: see [`clock`].

pub mod clock;
mod error;
mod input;
mod layout;
pub mod link;

use std::{io::Read, path::Path};

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader, traits::PcapReaderIterator};

pub use error::{Error, Result};
pub use link::Link;

use clock::Clock;
use input::{Failure, Input};
use layout::{Found, Layout};

/// Initial size of the buffer, in bytes: the longest packet that capture tools write, with its block.
const BUFFER: usize = 512 << 10;
/// Maximum size of the buffer, in bytes. Some blocks without packets are long. A longer block is damaged.
const BUFFER_MAX: usize = 16 << 20;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The packet's number in the capture, from 1.
    pub number: u64,
    /// Arrival time, in nanoseconds since 1970 according to the capture. Never before the previous packet.
    pub time: u64,
    /// Length on the wire in bytes, in the framing of `link`; at least the length of `bytes`.
    pub length: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The framing of `bytes`.
    pub link: Link,
    /// True if the host sent the packet, according to the capture.
    pub outgoing: bool,
}

/// The reason why a capture ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The capture ends within a packet or a block.
    Short,
    /// The following bytes are not valid in a capture.
    Damaged,
}

/// An open capture.
pub struct Capture {
    name: String,
    reader: Box<dyn PcapReaderIterator + Send>,
    failure: Failure,
    layout: Layout,
    clock: Clock,
    /// Length of the last returned block, in bytes.
    pending: usize,
    buffer: usize,
    packets: u64,
    cut: Option<Cut>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("name", &self.name)
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

/// The result of one call of the reader.
enum Step {
    Packet(Found),
    Other,
    More,
    Grow,
    Cut(Cut),
    End,
    Unreadable,
}

impl Capture {
    /// Opens the file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        let (name, input) = input::open(path)?;
        Self::of(name, input)
    }

    /// Reads from `from`. Messages call it `name`.
    pub fn new(name: &str, from: impl Read + Send + 'static) -> Result<Self> {
        Self::of(name.to_owned(), Box::new(from))
    }

    fn of(name: String, from: Box<dyn Read + Send>) -> Result<Self> {
        let failure = Failure::default();
        let input = match Input::new(from, failure.clone()) {
            Ok(input) => input,
            Err(why) => return Err(Error::Unread(name, why)),
        };
        let reader = match create_reader(BUFFER, input) {
            Ok(reader) => reader,
            Err(PcapError::ReadError) => return Err(failure.take(name)),
            Err(PcapError::Eof) => return Err(Error::Empty(name)),
            Err(PcapError::Incomplete(_)) => return Err(Error::NoHeader(name)),
            Err(_) => return Err(Error::NoCapture(name)),
        };
        Ok(Self {
            name,
            reader,
            failure,
            layout: Layout::default(),
            clock: Clock::default(),
            pending: 0,
            buffer: BUFFER,
            packets: 0,
            cut: None,
        })
    }

    /// The next packet; none at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "a packet borrows from the buffer that the next one is read into"
    )]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>> {
        let found = loop {
            if self.cut.is_some() {
                return Ok(None);
            }
            self.reader.consume(std::mem::take(&mut self.pending));
            match self.step()? {
                Step::Packet(found) => break found,
                Step::Other => {}
                Step::End => return Ok(None),
                // The reader also returns this after the last byte was consumed.
                Step::Cut(Cut::Short) if self.reader.data().is_empty() => return Ok(None),
                Step::Cut(cut) => self.cut = Some(cut),
                Step::Unreadable => return Err(self.failure.take(self.name.clone())),
                Step::More => self.refill()?,
                Step::Grow => self.grow(),
            }
        };
        self.packets += 1;
        let block = self.reader.data();
        let bytes = block.get(found.bytes).unwrap_or_default();
        let time = found.time.unwrap_or(self.clock.last());
        Ok(Some(Packet {
            number: self.packets,
            time: self.clock.at(time),
            length: u64::from(found.length).max(bytes.len() as u64),
            bytes,
            link: found.link,
            outgoing: found.outgoing,
        }))
    }

    fn step(&mut self) -> Result<Step> {
        let (size, block) = match self.reader.next() {
            Ok(next) => next,
            Err(error) => {
                return Ok(match error {
                    PcapError::Eof => Step::End,
                    PcapError::Incomplete(_) => Step::More,
                    PcapError::BufferTooSmall if self.buffer < BUFFER_MAX => Step::Grow,
                    PcapError::UnexpectedEof => Step::Cut(Cut::Short),
                    PcapError::ReadError => Step::Unreadable,
                    _ => Step::Cut(Cut::Damaged),
                });
            }
        };
        self.pending = size;
        let layout = &mut self.layout;
        let found = match &block {
            PcapBlockOwned::LegacyHeader(header) => {
                layout.header(header);
                None
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                layout.section();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                layout.interface(interface);
                None
            }
            PcapBlockOwned::Legacy(packet) => Some(layout.packet(packet)),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => Some(layout.enhanced(packet)),
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => Some(layout.simple(packet)),
            PcapBlockOwned::NG(Block::Unknown(block)) => layout.unknown(block),
            PcapBlockOwned::NG(_) => None,
        };
        match found {
            None => Ok(Step::Other),
            Some(Ok(found)) => Ok(Step::Packet(found)),
            Some(Err(why)) => Err(Error::Packet(self.name.clone(), self.packets + 1, why)),
        }
    }

    fn refill(&mut self) -> Result<()> {
        if self.reader.refill().is_ok() {
            return Ok(());
        }
        Err(self.failure.take(self.name.clone()))
    }

    fn grow(&mut self) {
        self.buffer *= 2;
        self.reader.grow(self.buffer);
    }

    /// Number of packets read so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.reader.consumed() as u64
    }

    /// The reason why the capture ended too early, if it did.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Number of times that the capture's clock was set back.
    pub fn set_back(&self) -> u64 {
        self.clock.set_back()
    }
}
