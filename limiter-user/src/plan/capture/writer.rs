//! Writing captures in pcapng: packets with comments.

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

/// The interface of the packets.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// True if packets begin with the IP header, and not with the one of Ethernet.
    pub no_ethernet: bool,
    /// True if the host sends the packets.
    pub outgoing: bool,
    /// Most bytes of a packet.
    pub snap: u32,
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
        };
        writer.append(&[])?;
        Ok(writer)
    }

    /// Writes a packet of `length` bytes, of which it has the first `bytes`, to a new file if the present one is full.
    /// `time`: since 1970.
    pub fn write(
        &mut self,
        time: Duration,
        length: u32,
        bytes: &[u8],
        comment: &str,
    ) -> Result<()> {
        let comment = EnhancedPacketOption::Comment(comment.into());
        self.blocks.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time,
            original_len: length,
            data: Cow::Borrowed(bytes),
            options: vec![comment, self.direction.clone()],
        })?;
        let block = take(self.blocks.get_mut());
        if self.written + block.len() as u64 > self.most {
            fs::rename(&self.path, &self.full).map_err(|why| self.unwritten(&why))?;
            self.file = new(&self.path)?;
            self.written = 0;
        }
        self.append(&block)
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

/// Creates a file for its owner alone.
fn new(path: &Path) -> Result<File> {
    files::create(path).map_err(|why| {
        anyhow!(
            "{} cannot be created ({why}): name a file that does not exist",
            path.display()
        )
    })
}
