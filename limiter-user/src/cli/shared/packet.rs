//! Options that name the packets whose buckets a command is about.

use std::net::IpAddr;

use anyhow::bail;
use clap::Args;

use super::values::address;
use crate::{config::Protocol, observe::Asked};

#[derive(Debug, Args)]
pub struct OfPacket {
    /// Destination of the packets, for limits whose key has it
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "address")]
    to: Option<IpAddr>,
    /// Destination port of the packets, for limits whose key has it
    #[arg(long, value_name = "PORT", requires = "address")]
    port: Option<u16>,
    /// Source port of the packets, for limits on flows
    #[arg(long, value_name = "PORT", requires = "address")]
    from_port: Option<u16>,
    /// Protocol of the packets as in udp, for limits on flows
    #[arg(long, value_name = "NAME", requires = "address")]
    protocol: Option<Protocol>,
}

impl OfPacket {
    /// The packets from `source` with these options.
    pub fn from(&self, source: IpAddr) -> anyhow::Result<Asked> {
        if let Some(to) = self.to.filter(|to| to.is_ipv4() != source.is_ipv4()) {
            bail!(
                "no packet goes from {source} to {to}: write an IPv{} address after --to",
                if source.is_ipv4() { 4 } else { 6 }
            );
        }
        Ok(Asked {
            source,
            to: self.to,
            port: self.port,
            from_port: self.from_port,
            protocol: self.protocol,
        })
    }
}
