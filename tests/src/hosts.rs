//! Two hosts on a wire, and the limiter's command run on one of them.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use limiter_user::{
    kernel::{detach::detach, pins},
    lab::{Address, Host, INTERFACE, Pair},
};

use crate::{
    command::{Outcome, limiter},
    packet::Frame,
};

/// The host that is protected.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The host that sends.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// Server and client.
#[derive(Debug)]
pub struct Hosts {
    /// Where limiter runs.
    pub server: Host,
    /// Where the traffic comes from.
    pub client: Host,
}

impl Hosts {
    /// Two hosts that send nothing on their own: IPv4 addresses, known to each other, no IPv6.
    #[must_use]
    pub fn new() -> Self {
        let pair = Pair::new(&[Address(SERVER, 24)], &[Address(CLIENT, 24)]).unwrap();
        Self {
            server: pair.left,
            client: pair.right,
        }
    }

    /// A UDP frame from the client to the server, with `source` as its sender.
    #[must_use]
    pub fn frame(&self, source: IpAddr) -> Frame {
        Frame {
            macs: (self.client.mac, self.server.mac),
            ..Frame::from(source)
        }
    }

    /// The folder of pins of the server's `eth0`.
    #[must_use]
    pub fn pins(&self) -> PathBuf {
        self.server
            .namespace
            .run(|| pins::directory(INTERFACE))
            .unwrap()
            .unwrap()
    }

    /// Runs `limiter` on the server.
    #[must_use]
    pub fn limiter(&self, arguments: &[&str]) -> Outcome {
        self.server.namespace.run(|| limiter(arguments)).unwrap()
    }

    /// Runs `limiter` on the server, which must succeed, and reads the JSON that it prints.
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let outcome = self.limiter(arguments);
        outcome.expect(0);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// The attachment, from `status --json`.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        self.json(&["status", "eth0", "--json"])["interfaces"][0].clone()
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hosts {
    /// Pins outlive namespaces: a test that fails must not leave them. (`detach --all` would clear
    /// away what other tests leave on purpose.)
    fn drop(&mut self) {
        let _ = self.server.namespace.block_on(|| async {
            let here = pins::namespace().ok();
            for folder in pins::folders().unwrap_or_default() {
                if Some(folder.namespace) == here {
                    let _ = detach(&folder.interface).await;
                }
            }
        });
    }
}
