//! Where in a block the packet lies, when it came, and how it is framed.

use std::ops::Range;

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, OptionCode, PcapHeader,
    SimplePacketBlock, UnknownBlock,
};

use super::{Link, error::Why};

const NANOSECONDS: u64 = 1_000_000_000;

/// A packet in the block that is in the buffer.
pub(super) struct Found {
    /// Where it lies in the block.
    pub bytes: Range<usize>,
    /// Nanoseconds; none where the block does not say.
    pub time: Option<u64>,
    /// Bytes on the wire.
    pub length: u32,
    pub link: Link,
    pub outgoing: bool,
}

/// The number of a link type, with its name where people are likely to meet it.
fn named(link: u32) -> String {
    let name = match link {
        9 => "PPP",
        50 => "PPP over serial",
        51 => "PPPoE",
        105 => "IEEE 802.11",
        127 => "IEEE 802.11 with radiotap",
        119 => "IEEE 802.11 with Prism",
        147..=162 => "user defined",
        187 | 201 => "Bluetooth",
        189 | 220 => "USB",
        195 | 230 => "IEEE 802.15.4",
        239 => "NFLOG",
        249 => "USBPcap",
        252 => "exported PDU",
        253 => "netlink",
        _ => return link.to_string(),
    };
    format!("{link} ({name})")
}

type Packet = Result<Found, Why>;

/// An interface that packets were captured on.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Bytes that are kept of a packet at most; 0: all.
    most: u32,
    /// Units of time in a second; none where that cannot be said.
    resolution: Option<u64>,
    /// Seconds that are added to times.
    offset: i64,
}

impl Interface {
    fn time(&self, units: u64) -> Result<u64, Why> {
        let resolution = self.resolution.ok_or(Why::Inconsistent(
            "has a time in units that cannot be: take another capture",
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

    /// A packet of which this was captured, after so many bytes of its block.
    fn packet(&self, before: usize, captured: &[u8], length: u32, time: Option<u64>) -> Packet {
        let link = Link::of_number(self.link).ok_or_else(|| Why::OtherLink(named(self.link)))?;
        Ok(Found {
            bytes: before..before + captured.len(),
            time,
            length,
            link,
            outgoing: link.says_outgoing(captured),
        })
    }
}

/// What the capture has said of its interfaces so far.
#[derive(Debug, Default)]
pub(super) struct Layout {
    interfaces: Vec<Interface>,
    /// Bytes before a packet, in a file of pcap.
    before: usize,
}

impl Layout {
    /// pcap: the header of the file.
    pub fn header(&mut self, header: &PcapHeader) {
        // The bits above say how long a checksum is at the end of frames.
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

    /// pcap: a packet.
    pub fn packet(&self, packet: &LegacyPcapBlock<'_>) -> Packet {
        let interface = self.of(0)?;
        let resolution = interface.resolution.unwrap_or(1);
        let units = u64::from(packet.ts_sec) * resolution + u64::from(packet.ts_usec);
        let time = interface.time(units)?;
        interface.packet(self.before, packet.data, packet.origlen, Some(time))
    }

    /// pcapng: a section begins, with interfaces of its own.
    pub fn section(&mut self) {
        self.interfaces.clear();
    }

    /// pcapng: an interface.
    pub fn interface(&mut self, block: &InterfaceDescriptionBlock<'_>) {
        // The parser reads it as of a little-endian section.
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

    /// pcapng: a packet.
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
            // The lowest byte comes first, or last of four.
            let lowest = if packet.block_type == pcap_parser::EPB_MAGIC {
                option.value.first()
            } else {
                option.value.get(3)
            };
            option.code == OptionCode(2) && lowest.is_some_and(|byte| byte & 3 == OUTBOUND)
        });
        Ok(found)
    }

    /// pcapng: a packet without a time.
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

    /// pcapng: a block that the parser does not know.
    pub fn unknown(&self, block: &UnknownBlock<'_>) -> Option<Packet> {
        const OLD_PACKET: u32 = 2;
        let kind = block.block_type;
        (kind == OLD_PACKET || kind.swap_bytes() == OLD_PACKET).then_some(Err(Why::Inconsistent(
            "is in a block of a kind that is out of use: convert the capture with editcap -F pcapng IN OUT",
        )))
    }

    fn of(&self, number: u32) -> Result<&Interface, Why> {
        self.interfaces
            .get(number as usize)
            .ok_or(Why::Inconsistent(
                "is of an interface that the capture does not describe: take another capture",
            ))
    }
}

/// Units in a second: a power of ten, or of two.
fn resolution(written: u8) -> Option<u64> {
    const OF_TWO: u8 = 0x80;
    if written & OF_TWO == 0 {
        10_u64.checked_pow(written.into())
    } else {
        1_u64.checked_shl((written & !OF_TWO).into())
    }
}
