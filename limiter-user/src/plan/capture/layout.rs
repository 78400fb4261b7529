//! The position, time and framing of the packet in a block.

use std::ops::Range;

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, OptionCode, PcapHeader,
    SimplePacketBlock, UnknownBlock,
};

use super::{Link, error::Why};

const NANOSECONDS: u64 = 1_000_000_000;

/// A packet in the buffer's block.
pub(super) struct Found {
    /// Position of the packet in the block.
    pub bytes: Range<usize>,
    /// Time in nanoseconds; none if the block has no time.
    pub time: Option<u64>,
    /// Length of the packet on the wire, in bytes.
    pub length: u32,
    pub link: Link,
    pub outgoing: bool,
}

type Packet = Result<Found, Why>;

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Maximum bytes captured per packet; 0: all.
    most: u32,
    /// Units of time per second; none if the capture's value is invalid.
    resolution: Option<u64>,
    /// Seconds to add to times.
    offset: i64,
}

impl Interface {
    fn time(&self, units: u64) -> Result<u64, Why> {
        let resolution = self.resolution.ok_or(Why::Inconsistent(
            "has an invalid unit of time: use another capture",
        ))?;
        let nanoseconds = if NANOSECONDS.is_multiple_of(resolution) {
            units.saturating_mul(NANOSECONDS / resolution)
        } else {
            let exact = u128::from(units) * u128::from(NANOSECONDS) / u128::from(resolution);
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        let offset = self.offset.saturating_mul(NANOSECONDS.cast_signed());
        Ok(nanoseconds.saturating_add_signed(offset))
    }

    /// Creates a packet. `before`: bytes in the block before `captured`, the packet's captured bytes.
    fn packet(&self, before: usize, captured: &[u8], length: u32, time: Option<u64>) -> Packet {
        let link = Link::of_number(self.link).ok_or(Why::OtherLink(self.link))?;
        Ok(Found {
            bytes: before..before + captured.len(),
            time,
            length,
            link,
            outgoing: link.says_outgoing(captured),
        })
    }
}

/// The interfaces that the capture has described so far.
#[derive(Debug, Default)]
pub(super) struct Layout {
    interfaces: Vec<Interface>,
    /// Bytes before a packet, in a pcap file.
    before: usize,
}

impl Layout {
    /// Reads the file header of pcap.
    pub fn header(&mut self, header: &PcapHeader) {
        // The bits above are the length of the frames' checksum.
        const LINK: u32 = 0xffff;
        let resolution = if header.is_nanosecond_precision() {
            NANOSECONDS
        } else {
            1_000_000
        };
        self.before = if header.is_modified_format() { 24 } else { 16 };
        self.interfaces = vec![Interface {
            link: header.network.0.cast_unsigned() & LINK,
            most: header.snaplen,
            resolution: Some(resolution),
            offset: 0,
        }];
    }

    /// Reads a packet of pcap.
    pub fn packet(&self, packet: &LegacyPcapBlock<'_>) -> Packet {
        let interface = self.of(0)?;
        let resolution = interface.resolution.unwrap_or(1);
        let units = u64::from(packet.ts_sec) * resolution + u64::from(packet.ts_usec);
        let time = interface.time(units)?;
        interface.packet(self.before, packet.data, packet.origlen, Some(time))
    }

    /// Begins a section of pcapng, which has its own interfaces.
    pub fn section(&mut self) {
        self.interfaces.clear();
    }

    /// Reads an interface of pcapng.
    pub fn interface(&mut self, block: &InterfaceDescriptionBlock<'_>) {
        // The parser always reads the offset as little-endian.
        let offset = if block.block_type == pcap_parser::IDB_MAGIC {
            block.if_tsoffset
        } else {
            block.if_tsoffset.swap_bytes()
        };
        self.interfaces.push(Interface {
            link: block.linktype.0.cast_unsigned(),
            most: block.snaplen,
            resolution: resolution(block.if_tsresol),
            offset,
        });
    }

    /// Reads a packet of pcapng.
    pub fn enhanced(&self, packet: &EnhancedPacketBlock<'_>) -> Packet {
        const BEFORE: usize = 28;
        let interface = self.of(packet.if_id)?;
        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        let time = interface.time(units)?;
        let captured = packet.data.get(..packet.caplen as usize);
        let captured = captured.unwrap_or(packet.data);
        let mut found = interface.packet(BEFORE, captured, packet.origlen, Some(time))?;
        found.outgoing |= packet.options.iter().any(|option| {
            const OUTBOUND: u8 = 2;
            // The lowest byte is the first of four, or the last.
            let lowest = if packet.block_type == pcap_parser::EPB_MAGIC {
                option.value.first()
            } else {
                option.value.get(3)
            };
            option.code == OptionCode(2) && lowest.is_some_and(|byte| byte & 3 == OUTBOUND)
        });
        Ok(found)
    }

    /// Reads a packet of pcapng without a time.
    pub fn simple(&self, packet: &SimplePacketBlock<'_>) -> Packet {
        const BEFORE: usize = 12;
        let interface = self.of(0)?;
        let most = match interface.most {
            0 => packet.origlen,
            most => packet.origlen.min(most),
        };
        let captured = packet.data.get(..most as usize).unwrap_or(packet.data);
        interface.packet(BEFORE, captured, packet.origlen, None)
    }

    /// Reads a block of pcapng that the parser does not know.
    pub fn unknown(&self, block: &UnknownBlock<'_>) -> Option<Packet> {
        const OLD_PACKET: u32 = 2;
        let kind = block.block_type;
        (kind == OLD_PACKET || kind.swap_bytes() == OLD_PACKET).then_some(Err(Why::Inconsistent(
            "is in an obsolete kind of block: convert the capture with editcap -F pcapng IN OUT",
        )))
    }

    fn of(&self, number: u32) -> Result<&Interface, Why> {
        self.interfaces
            .get(number as usize)
            .ok_or(Why::Inconsistent(
                "belongs to an interface that the capture does not describe: use another capture",
            ))
    }
}

/// The units of time per second: a power of ten, or of two.
fn resolution(written: u8) -> Option<u64> {
    const OF_TWO: u8 = 0x80;
    if written & OF_TWO == 0 {
        10_u64.checked_pow(written.into())
    } else {
        1_u64.checked_shl((written & !OF_TWO).into())
    }
}
