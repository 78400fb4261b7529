//! Why a capture cannot be read.

use std::io;

/// What stands in the way; each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("{name} cannot be read ({why}): is that the capture, and may you read it?")]
    Unopened {
        /// The capture.
        name: String,
        /// What the system says.
        why: io::Error,
    },
    /// Reading has failed.
    #[error(
        "{name} cannot be read ({why}): give a file of pcap or pcapng, or - for standard input"
    )]
    Unread {
        /// The capture.
        name: String,
        /// What the system says.
        why: io::Error,
    },
    /// There is nothing in it.
    #[error("{name}: is empty: write a capture to it, as with tcpdump -w")]
    Empty {
        /// The capture.
        name: String,
    },
    /// It ends before the first packet could begin.
    #[error("{name}: ends within the header of a capture: take a whole one")]
    NoHeader {
        /// The capture.
        name: String,
    },
    /// It is something else.
    #[error(
        "{name}: is no capture, neither pcap nor pcapng: take a file that tcpdump -w has written (one that is compressed \
         through a pipe: gunzip -c FILE | limiter ... -)"
    )]
    NoCapture {
        /// The capture.
        name: String,
    },
    /// Packets of a kind of interface that is not understood.
    #[error(
        "{name}: packet {number} has link type {link}, which limiter does not read: capture on an interface with Ethernet \
         (1), Linux cooked (113, 276), raw IP (101, 228, 229) or BSD loopback (0, 108) framing"
    )]
    OtherLink {
        /// The capture.
        name: String,
        /// The packet.
        number: u64,
        /// The number of the link type, with its name where that is known.
        link: String,
    },
    /// The capture contradicts itself.
    #[error("{name}: packet {number} {why}")]
    Inconsistent {
        /// The capture.
        name: String,
        /// The packet.
        number: u64,
        /// What is wrong, and what to do.
        why: &'static str,
    },
}

/// What reading a capture comes to.
pub type Result<T> = std::result::Result<T, Error>;
