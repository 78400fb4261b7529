//! Floods from three sources above the limit until the flood is dropped.

use std::time::Duration;

use limiter_tests::{
    hosts::Hosts,
    traffic::{Flood, udp},
};

/// Sources with their packets per 10 ms. Each always sends more than the next.
const SOURCES: [(&str, usize); 3] = [(super::FLOODER, 16), ("192.0.2.7", 4), ("192.0.2.9", 1)];

/// Starts to send from the client to the server.
pub fn start(hosts: &Hosts) -> Flood {
    let frames = SOURCES.map(|(source, count)| {
        let frame = udp(hosts, source.parse().unwrap(), 9);
        vec![frame; count]
    });
    Flood::start(hosts, frames.concat(), Duration::from_millis(10))
}
