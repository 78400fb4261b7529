//! Writing captures in pcapng: packets with verdicts and comments.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::Write,
    mem::take,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};
use pcap_file::{
    DataLink,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};

use crate::files;

/// Times are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The option with a packet's verdict (`epb_verdict`). Its value is the kind, and the action in eight bytes.
const VERDICT: u16 = 7;
/// Kinds of verdicts.
const OF_TC: u8 = 1;
const OF_XDP: u8 = 2;
/// Actions: `TC_ACT_SHOT` and `TC_ACT_UNSPEC`, `XDP_DROP` and `XDP_PASS`.
const TC_DROP: i64 = 2;
const TC_PASS: i64 = -1;
const XDP_DROP: i64 = 1;
const XDP_PASS: i64 = 2;

/// The interface of the packets.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// True if the verdicts are of the network stack (tc), and not of the driver (XDP).
    pub in_stack: bool,
    /// True if packets begin with the IP header, and not with the one of Ethernet.
    pub no_ethernet: bool,
    /// True if the host sends the packets.
    pub outgoing: bool,
    /// Most bytes of a packet.
    pub snap: u32,
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Time since 1970.
    pub time: Duration,
    /// Length of the packet in bytes.
    pub length: u32,
    /// The first bytes of the packet.
    pub bytes: &'a [u8],
    /// True if the packet is dropped; false if it passes because of shadow.
    pub is_dropped: bool,
    /// Verdict and reason in words.
    pub comment: &'a str,
}

/// A capture that is written. Each packet is complete in the file when [`Self::write`] returns.
pub struct Writer {
    path: PathBuf,
    /// The full file's name.
    full: PathBuf,
    /// Most bytes of the file.
    most: u64,
    /// The beginning of each file.
    header: Vec<u8>,
    blocks: PcapNgWriter<Vec<u8>>,
    file: File,
    written: u64,
    /// The option of each packet that says its direction.
    direction: EnhancedPacketOption<'static>,
    /// True if the verdicts are of the network stack.
    in_stack: bool,
}

impl Writer {
    /// Creates the file, which must not exist: another user may have placed a link or a file of their own there. A file
    /// that would have more than `most` bytes is renamed to `path` with `.1`, which replaces the one before.
    pub fn create(path: &Path, interface: Interface, most: Option<u64>) -> Result<Self> {
        let mut full = path.as_os_str().to_owned();
        full.push(".1");
        let full = PathBuf::from(full);
        ensure!(
            most.is_none() || full.symlink_metadata().is_err(),
            "{} exists, and --rotate would replace it: move it away, or name another file",
            full.display()
        );
        let mut blocks = PcapNgWriter::new(Vec::new())?;
        blocks.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: if interface.no_ethernet {
                DataLink::RAW
            } else {
                DataLink::ETHERNET
            },
            snaplen: interface.snap,
            options: vec![
                InterfaceDescriptionOption::IfName(interface.name.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
        let header = take(blocks.get_mut());
        let mut writer = Self {
            path: path.to_owned(),
            full,
            most: most.unwrap_or(u64::MAX),
            file: new(path)?,
            blocks,
            written: 0,
            header,
            direction: EnhancedPacketOption::Flags(if interface.outgoing {
                OUTBOUND
            } else {
                INBOUND
            }),
            in_stack: interface.in_stack,
        };
        writer.append(&[])?;
        Ok(writer)
    }

    /// Writes a packet, to a new file if the present one is full.
    pub fn write(&mut self, packet: &Written<'_>) -> Result<()> {
        let comment = EnhancedPacketOption::Comment(packet.comment.into());
        self.blocks.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: packet.time,
            original_len: packet.length,
            data: Cow::Borrowed(packet.bytes),
            options: vec![comment, self.direction.clone()],
        })?;
        let block = take(self.blocks.get_mut());
        let block = with_option(block, VERDICT, &self.verdict(packet.is_dropped));
        if self.written + block.len() as u64 > self.most {
            fs::rename(&self.path, &self.full).map_err(|why| self.unwritten(&why))?;
            self.file = new(&self.path)?;
            self.written = 0;
        }
        self.append(&block)
    }

    /// The value of the option with the verdict. The file has this machine's byte order.
    fn verdict(&self, is_dropped: bool) -> Vec<u8> {
        let (kind, action) = match (self.in_stack, is_dropped) {
            (true, true) => (OF_TC, TC_DROP),
            (true, false) => (OF_TC, TC_PASS),
            (false, true) => (OF_XDP, XDP_DROP),
            (false, false) => (OF_XDP, XDP_PASS),
        };
        [&[kind][..], &action.to_ne_bytes()].concat()
    }

    fn append(&mut self, block: &[u8]) -> Result<()> {
        let header = if self.written == 0 {
            &*self.header
        } else {
            &[]
        };
        let bytes = [header, block].concat();
        if let Err(why) = self.file.write_all(&bytes) {
            // A part of a block would make the file invalid.
            let _ = self.file.set_len(self.written);
            return Err(self.unwritten(&why));
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn unwritten(&self, why: &std::io::Error) -> anyhow::Error {
        let path = self.path.display();
        anyhow!("{path} cannot be written ({why}): name a file elsewhere, or a smaller --rotate")
    }
}

/// Adds an option, which the library does not know, to a block with options.
fn with_option(mut block: Vec<u8>, code: u16, value: &[u8]) -> Vec<u8> {
    /// Bytes of the last option, which marks the end, and of the block's length, which is also behind the block's kind.
    const END: usize = 4;
    const LENGTH: usize = 4;
    #[expect(clippy::cast_possible_truncation, reason = "an option is short")]
    let length = value.len() as u16;
    let mut option = [&code.to_ne_bytes()[..], &length.to_ne_bytes(), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    let end = block.len() - END - LENGTH;
    block.splice(end..end, option);
    #[expect(clippy::cast_possible_truncation, reason = "a packet is short")]
    let length = (block.len() as u32).to_ne_bytes();
    let last = block.len() - LENGTH;
    block[4..][..LENGTH].copy_from_slice(&length);
    block[last..].copy_from_slice(&length);
    block
}

/// Creates a file for its owner alone.
fn new(path: &Path) -> Result<File> {
    files::create(path).map_err(|why| {
        anyhow!(
            "{} cannot be created ({why}): name a file that does not exist",
            path.display()
        )
    })
}
