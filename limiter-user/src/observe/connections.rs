//! `connections`: the open connections that limits bound.

use std::net::IpAddr;

use limiter_common::table::key::SourceKey;
use limiter_kernel::{Attachment, Result};
use serde::Serialize;

/// The output of `connections --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenConnections {
    /// Name of the interface.
    pub interface: String,
    /// The limits that bound connections.
    pub limits: Vec<OpenUnderLimit>,
}

/// The open connections under one limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenUnderLimit {
    /// Name of the limit.
    pub limit: String,
    /// The most open connections of one key.
    pub most: u64,
    /// Keys with open connections, most of them first.
    pub keys: Vec<OpenOfKey>,
}

/// The open connections of one key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenOfKey {
    /// The key: an address or a prefix, with a port if the limit's key has one.
    pub key: String,
    /// Open connections.
    pub open: u64,
}

/// Reads the open connections of all sources, or of `source`, by the host's sockets.
pub fn connections(attachment: &Attachment, source: Option<IpAddr>) -> Result<OpenConnections> {
    let mut limits = Vec::new();
    let nat64 = attachment.record.settings.translators();
    if let Some(table) = &attachment.open {
        table.correct()?;
        for (index, (limit, _)) in attachment.record.with_slots().into_iter().enumerate() {
            let Some(most) = limit.connections else {
                continue;
            };
            let is_of = |address: IpAddr, key: &SourceKey| {
                let network = limit.key.network(key, &nat64);
                network.is_none_or(|network| network.contains(&address))
            };
            let mut keys = table.by_key(index)?;
            keys.retain(|(key, _)| source.is_none_or(|source| is_of(source, key)));
            let mut keys: Vec<_> = keys
                .iter()
                .map(|(key, open)| OpenOfKey {
                    key: limit.key.show(key, &nat64),
                    open: *open,
                })
                .collect();
            keys.sort_by(|a, b| b.open.cmp(&a.open).then_with(|| a.key.cmp(&b.key)));
            limits.push(OpenUnderLimit {
                limit: limit.name,
                most,
                keys,
            });
        }
    }
    Ok(OpenConnections {
        interface: attachment.interface.name.clone(),
        limits,
    })
}
