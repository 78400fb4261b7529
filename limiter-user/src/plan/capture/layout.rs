//! The time and frame of the packet in a block.

use limiter_config::Direction;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, OptionCode,
    PcapBlockOwned, PcapHeader,
};

use super::{
    interface::{Interface, resolution},
    packet::Read,
    unread::Unread,
};

/// Kinds of blocks.
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const SECTION: u32 = 0x0a0d_0d0a;

/// The interfaces that the capture has described so far.
#[derive(Debug, Default)]
pub(super) struct Layout {
    interfaces: Vec<Interface>,
    /// True if the file has blocks, and not just packets.
    has_blocks: bool,
    /// Byte order of the blocks.
    big_endian: bool,
}

impl Layout {
    /// Reads a block; none if it has no packet.
    pub fn read(&mut self, block: &PcapBlockOwned<'_>) -> Option<Read> {
        match block {
            PcapBlockOwned::Legacy(packet) => Some(self.legacy(packet)),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => Some(self.enhanced(packet)),
            PcapBlockOwned::NG(Block::SimplePacket(_)) => Some(Err(Unread::Time)),
            PcapBlockOwned::NG(Block::Unknown(block))
                if self.native(block.block_type) == OLD_PACKET =>
            {
                Some(self.old(block.data))
            }
            PcapBlockOwned::LegacyHeader(header) => {
                self.interfaces = vec![of_header(header)];
                None
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                self.has_blocks = true;
                self.big_endian = section.big_endian();
                // Each section has its own interfaces.
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                self.interfaces.push(described(block));
                None
            }
            PcapBlockOwned::NG(_) => None,
        }
    }

    /// The size of the block at the beginning of `data` that the parser refuses, and what is lost with it. None if
    /// there is no block whose end can be found.
    pub fn damaged(&mut self, data: &[u8]) -> Option<(usize, Option<Read>)> {
        let word = |offset: usize| {
            let word = *data.get(offset..)?.first_chunk()?;
            Some(self.native(u32::from_le_bytes(word)))
        };
        let (kind, length) = (word(0)?, word(4)?);
        let size = usize::try_from(length).ok()?;
        if !self.has_blocks || kind == SECTION || size < 12 || word(size - 4)? != length {
            return None;
        }
        let lost = match kind {
            OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => Some(Err(Unread::Block)),
            INTERFACE => {
                self.interfaces.push(Interface::UNKNOWN);
                None
            }
            _ => None,
        };
        Some((size, lost))
    }

    /// A number that was read as little-endian.
    fn native(&self, number: u32) -> u32 {
        if self.big_endian {
            number.swap_bytes()
        } else {
            number
        }
    }

    /// Reads a packet of pcap.
    fn legacy(&self, packet: &LegacyPcapBlock<'_>) -> Read {
        let interface = self.interface(0)?;
        let resolution = interface.resolution.unwrap_or(1);
        let units = u64::from(packet.ts_sec) * resolution + u64::from(packet.ts_usec);
        interface.packet(units, packet.data, packet.origlen, None)
    }

    /// Reads a packet of pcapng.
    fn enhanced(&self, packet: &EnhancedPacketBlock<'_>) -> Read {
        const FLAGS: OptionCode = OptionCode(2);
        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        let captured = packet.data.get(..packet.caplen as usize);
        let captured = captured.unwrap_or(packet.data);
        let mut options = packet.options.iter();
        let flags = options
            .find(|option| option.code == FLAGS)
            .and_then(|option| option.value.first_chunk())
            .map_or(0, |flags| self.native(u32::from_le_bytes(*flags)));
        let checksum = flags >> 5 & 0xf;
        let interface = self.interface(packet.if_id)?;
        let checksum = (checksum != 0).then_some(checksum.into());
        let mut read = interface.packet(units, captured, packet.origlen, checksum)?;
        read.direction = match flags & 3 {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => read.direction,
        };
        Ok(read)
    }

    /// Reads a packet in the obsolete kind of block of pcapng, which the parser does not know.
    fn old(&self, block: &[u8]) -> Read {
        let word = |offset: usize| {
            let word = *block.get(offset..).and_then(|rest| rest.first_chunk())?;
            Some(self.native(u32::from_le_bytes(word)))
        };
        let words = || Some([word(0)?, word(4)?, word(8)?, word(12)?, word(16)?]);
        let [first, high, low, captured, length] = words().ok_or(Unread::Block)?;
        // The first two bytes are the interface, the next two the number of lost packets.
        let number = if self.big_endian {
            first >> 16
        } else {
            first & 0xffff
        };
        let captured = block.get(20..20 + captured as usize);
        let captured = captured.ok_or(Unread::Block)?;
        let units = u64::from(high) << 32 | u64::from(low);
        self.interface(number)?
            .packet(units, captured, length, None)
    }

    fn interface(&self, number: u32) -> Result<&Interface, Unread> {
        let interface = self.interfaces.get(number as usize);
        interface.ok_or(Unread::Interface)
    }
}

/// The only interface of a pcap file.
fn of_header(header: &PcapHeader) -> Interface {
    const LINK: u32 = 0xffff;
    const HAS_CHECKSUM: u32 = 1 << 26;
    let network = header.network.0.cast_unsigned();
    let is_fine = header.is_nanosecond_precision();
    Interface {
        link: network & LINK,
        resolution: resolution(if is_fine { 9 } else { 6 }),
        offset: 0,
        checksum: if network & HAS_CHECKSUM == 0 {
            0
        } else {
            // In words of two bytes.
            u64::from(network >> 28) * 2
        },
    }
}

fn described(block: &InterfaceDescriptionBlock<'_>) -> Interface {
    const CHECKSUM: OptionCode = OptionCode(13);
    // The parser always reads the offset as little-endian.
    let is_swapped = block.block_type != pcap_parser::IDB_MAGIC;
    let offset = block.if_tsoffset;
    let mut options = block.options.iter();
    let checksum = options
        .find(|option| option.code == CHECKSUM)
        .and_then(|option| option.value.first());
    Interface {
        link: block.linktype.0.cast_unsigned(),
        resolution: resolution(block.if_tsresol),
        offset: if is_swapped {
            offset.swap_bytes()
        } else {
            offset
        },
        // In bits, according to the specification, whose example is 4; some programs write bytes.
        checksum: match u64::from(checksum.copied().unwrap_or(0)) {
            bits if bits % 8 == 0 => bits / 8,
            bytes => bytes,
        },
    }
}
