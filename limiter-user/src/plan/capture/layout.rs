//! The time and frame of the packet in a block.

use pcap_parser::{Block, EnhancedPacketBlock, LegacyPcapBlock, OptionCode, PcapBlockOwned};

use super::{Link, Packet};

const NANOSECONDS: u64 = 1_000_000_000;

/// A packet, or the reason why it cannot be read.
pub(super) type Read = Result<Packet, String>;

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Units of time per second; none if the capture's value is invalid.
    resolution: Option<u64>,
    /// Seconds to add to times.
    offset: i64,
}

impl Interface {
    fn time(&self, units: u64) -> Result<u64, String> {
        let resolution = self
            .resolution
            .ok_or("has an invalid unit of time: use another capture")?;
        let exact = u128::from(units) * u128::from(NANOSECONDS) / u128::from(resolution);
        let nanoseconds = u64::try_from(exact).unwrap_or(u64::MAX);
        let offset = self.offset.saturating_mul(NANOSECONDS.cast_signed());
        Ok(nanoseconds.saturating_add_signed(offset))
    }

    /// Creates a packet of `length` bytes, of which some are captured. It has no number yet.
    fn packet(&self, captured: &[u8], length: u32, time: u64) -> Read {
        let link = Link::of_number(self.link).ok_or_else(|| {
            format!(
                "has link type {}, which limiter does not read: capture on an interface with Ethernet (1), Linux \
                 cooked (113, 276) or raw IP (101, 228, 229) framing",
                self.link
            )
        })?;
        let length = u64::from(length).max(captured.len() as u64);
        Ok(Packet {
            number: 0,
            time,
            frame: link.frame(captured, length),
            is_cut: (captured.len() as u64) < length,
            outgoing: link.says_outgoing(captured),
        })
    }
}

/// The interfaces that the capture has described so far.
#[derive(Debug, Default)]
pub(super) struct Layout(Vec<Interface>);

impl Layout {
    /// Reads a block; none if it has no packet.
    pub fn read(&mut self, block: &PcapBlockOwned<'_>) -> Option<Read> {
        match block {
            PcapBlockOwned::Legacy(packet) => Some(self.legacy(packet)),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => Some(self.enhanced(packet)),
            PcapBlockOwned::NG(Block::SimplePacket(_)) => Some(Err(
                "has no time: capture again with tcpdump -w".to_owned(),
            )),
            PcapBlockOwned::NG(Block::Unknown(block)) if is_old_packet(block.block_type) => {
                Some(Err(
                    "is in an obsolete kind of block: convert the capture with editcap -F pcapng IN OUT"
                        .to_owned(),
                ))
            }
            PcapBlockOwned::LegacyHeader(header) => {
                // The bits above are the length of the frames' checksum.
                const LINK: u32 = 0xffff;
                let is_fine = header.is_nanosecond_precision();
                self.0 = vec![Interface {
                    link: header.network.0.cast_unsigned() & LINK,
                    resolution: Some(if is_fine { NANOSECONDS } else { 1_000_000 }),
                    offset: 0,
                }];
                None
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                // Each section has its own interfaces.
                self.0.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                // The parser always reads the offset as little-endian.
                let is_swapped = block.block_type != pcap_parser::IDB_MAGIC;
                let offset = block.if_tsoffset;
                self.0.push(Interface {
                    link: block.linktype.0.cast_unsigned(),
                    resolution: resolution(block.if_tsresol),
                    offset: if is_swapped { offset.swap_bytes() } else { offset },
                });
                None
            }
            PcapBlockOwned::NG(_) => None,
        }
    }

    /// Reads a packet of pcap.
    fn legacy(&self, packet: &LegacyPcapBlock<'_>) -> Read {
        let interface = self.of(0)?;
        let resolution = interface.resolution.unwrap_or(1);
        let units = u64::from(packet.ts_sec) * resolution + u64::from(packet.ts_usec);
        let time = interface.time(units)?;
        interface.packet(packet.data, packet.origlen, time)
    }

    /// Reads a packet of pcapng.
    fn enhanced(&self, packet: &EnhancedPacketBlock<'_>) -> Read {
        let interface = self.of(packet.if_id)?;
        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        let time = interface.time(units)?;
        let captured = packet.data.get(..packet.caplen as usize);
        let captured = captured.unwrap_or(packet.data);
        let mut found = interface.packet(captured, packet.origlen, time)?;
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

    fn of(&self, number: u32) -> Result<&Interface, String> {
        let interface = self.0.get(number as usize);
        Ok(interface.ok_or(
            "belongs to an interface that the capture does not describe: use another capture",
        )?)
    }
}

/// Returns true for packets in a kind of block that the parser does not know.
fn is_old_packet(kind: u32) -> bool {
    const OLD_PACKET: u32 = 2;
    kind == OLD_PACKET || kind.swap_bytes() == OLD_PACKET
}

/// The units of time per second: a power of ten, or of two. The parser's own function refuses powers of two.
fn resolution(written: u8) -> Option<u64> {
    const OF_TWO: u8 = 0x80;
    if written & OF_TWO == 0 {
        10_u64.checked_pow(written.into())
    } else {
        1_u64.checked_shl((written & !OF_TWO).into())
    }
}
