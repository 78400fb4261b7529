//! Why a capture cannot be read.

use std::io;

/// Why a capture cannot be read, with the capture's name, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("{0} cannot be read ({1}): is that the capture, and may you read it?")]
    Unopened(String, io::Error),
    /// Reading has failed.
    #[error("{0} cannot be read ({1}): give a file of pcap or pcapng, or - for standard input")]
    Unread(String, io::Error),
    /// There is nothing in it.
    #[error("{0}: is empty: write a capture to it, as with tcpdump -w")]
    Empty(String),
    /// It ends before the first packet could begin.
    #[error("{0}: ends within the header of a capture: take a whole one")]
    NoHeader(String),
    /// It is something else.
    #[error(
        "{0}: is no capture, neither pcap nor pcapng: take a file that tcpdump -w has written (one that is compressed \
         through a pipe: gunzip -c FILE | limiter ... -)"
    )]
    NoCapture(String),
    /// The packet with this number cannot be read.
    #[error("{0}: packet {1} {2}")]
    Packet(String, u64, Why),
}

/// Why a packet cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// Its link type, with the name if that is known, is not understood.
    #[error(
        "has link type {0}, which limiter does not read: capture on an interface with Ethernet (1), Linux cooked \
         (113, 276), raw IP (101, 228, 229) or BSD loopback (0, 108) framing"
    )]
    OtherLink(String),
    /// The capture contradicts itself.
    #[error("{0}")]
    Inconsistent(&'static str),
}

/// What reading a capture comes to.
pub type Result<T> = std::result::Result<T, Error>;
