//! The beginning of a capture: finds out the format.

use std::io::{self, Cursor, Read};

use anyhow::{Result, anyhow, bail};
use pcap_parser::{PcapError, create_reader, traits::PcapReaderIterator};

/// Initial size of the buffer, in bytes: the longest packet that capture tools write, with its block.
const BUFFER: usize = 512 << 10;
/// Maximum size of the buffer, in bytes. Some blocks without packets are long. A longer block is damaged.
pub(super) const BUFFER_MAX: usize = 16 << 20;

/// The parser does not pass the system's reason on.
const FAILED: &str = "reading failed";

/// Bytes of the header of a pcap file.
const HEADER: u64 = 24;
/// The first bytes of a section in pcapng.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const ORDER: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
/// The first bytes of a "modified" pcap file, big-endian; and of a pcap file.
const MODIFIED: [u8; 4] = [0xa1, 0xb2, 0xcd, 0x34];
const PCAP: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];

pub(super) type Blocks = Box<dyn PcapReaderIterator + Send>;

/// Reads the beginning of a capture. Messages call it `name`. Also returns the size of the buffer.
pub(super) fn begin(name: &str, mut from: impl Read + Send + 'static) -> Result<(Blocks, usize)> {
    let mut first = Vec::new();
    let mut read = |first: &mut Vec<u8>, size| {
        let mut more = from.by_ref().take(size - first.len() as u64);
        more.read_to_end(first).map_err(|why| unread(name, why))
    };
    read(&mut first, HEADER)?;
    // The parser needs the whole first block in its first read, but a pipe delivers little at a time.
    let section = length_of_section(&first)
        .unwrap_or(0)
        .min(BUFFER_MAX as u64);
    read(&mut first, section.max(HEADER))?;
    let buffer = BUFFER.max(2 * first.len());
    let is_modified = first.starts_with(&MODIFIED);
    let reader = if is_modified {
        first[..PCAP.len()].copy_from_slice(&PCAP);
        let standard = Standard {
            from,
            begin: Cursor::new(first),
            body: 0,
        };
        create_reader(buffer, standard)
    } else {
        create_reader(buffer, Cursor::new(first).chain(from))
    };
    match reader {
        Ok(reader) => Ok((reader, buffer)),
        Err(PcapError::ReadError) => Err(unread(name, FAILED)),
        Err(PcapError::Eof) => {
            bail!("{name} is empty: write a capture to it, as with tcpdump -w")
        }
        Err(PcapError::Incomplete(_)) => {
            bail!("{name} ends within the header of the capture: name a complete capture")
        }
        Err(_) => bail!(
            "{name} is neither pcap nor pcapng: name a file that tcpdump -w has written (a compressed file through a pipe: gunzip -c FILE | limiter ... -)"
        ),
    }
}

/// The length of the first block of pcapng.
fn length_of_section(first: &[u8]) -> Option<u64> {
    let word = |offset: usize| first.get(offset..)?.first_chunk::<4>().copied();
    let length = word(4).filter(|_| word(0) == Some(SECTION))?;
    let length = if word(8)? == ORDER {
        u32::from_be_bytes(length)
    } else {
        u32::from_le_bytes(length)
    };
    Some(length.into())
}

fn unread(name: &str, why: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{name} cannot be read ({why}): name a pcap or pcapng file, or - for standard input")
}

/// Reads a big-endian "modified" pcap file as a standard one. The parser knows only little-endian ones.
struct Standard<R> {
    from: R,
    /// A header that is not passed on yet.
    begin: Cursor<Vec<u8>>,
    /// Bytes of the packet that come next.
    body: u64,
}

impl<R: Read> Read for Standard<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        /// Bytes of a packet's header: of a modified file, and of a standard one.
        const MODIFIED: u64 = 24;
        const STANDARD: usize = 16;
        loop {
            let passed = self.begin.read(into)?;
            if passed > 0 || into.is_empty() {
                return Ok(passed);
            }
            if self.body > 0 {
                let read = self.from.by_ref().take(self.body).read(into)?;
                self.body -= read as u64;
                return Ok(read);
            }
            let mut header = Vec::new();
            self.from.by_ref().take(MODIFIED).read_to_end(&mut header)?;
            if header.is_empty() {
                return Ok(0);
            }
            let captured = header.get(8..).and_then(|rest| rest.first_chunk());
            self.body = captured.map_or(0, |size| u32::from_be_bytes(*size).into());
            // The interface, the protocol and the kind of the packet follow.
            header.truncate(STANDARD);
            self.begin = Cursor::new(header);
        }
    }
}
