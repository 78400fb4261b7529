//! Reasons why packets of a capture cannot be read. Such packets are counted and left out.

/// The reason why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// A link type that limiter does not read.
    Link(u32),
    /// The capture has no time of the packet.
    Time,
    /// The capture does not describe the packet's interface, or not its unit of time.
    Interface,
    /// The block of the packet is damaged.
    Block,
}

impl Unread {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link(_) => "link_type",
            Self::Time => "no_time",
            Self::Interface => "no_interface",
            Self::Block => "damaged",
        }
    }

    /// The reason, and what to do about it.
    pub fn text(self) -> String {
        let text = match self {
            Self::Link(number) => {
                return format!(
                    "link type {number}, which limiter does not read: capture on an interface with Ethernet (1), Linux cooked (113, 276), raw IP (101, 228, 229), loopback (0, 108), PPP (9, 50) or 802.11 (105, 127) framing"
                );
            }
            Self::Time => "no time: capture again with tcpdump -w",
            Self::Interface => {
                "an interface that the capture does not describe, or whose unit of time is invalid: use another capture"
            }
            Self::Block => "damaged: use another capture",
        };
        text.to_owned()
    }
}
