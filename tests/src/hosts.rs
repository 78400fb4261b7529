//! Builds two hosts on a wire, and runs the limiter command on one of them.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use limiter_kernel::{ops::detach::detach, state::pins};

use crate::{
    command::{Arguments, Outcome, limiter, limiter_fed},
    files::at_driver,
    packet::Frame,
    testbed::{Address, Host, INTERFACE, Pair},
};

/// The host that is protected.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The host that sends.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
/// The protected host's IPv6 address.
pub const SERVER_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// The sending host's IPv6 address.
pub const CLIENT_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

/// Runs `work` on a host.
pub fn on<T: Send>(host: &Host, work: impl FnOnce() -> T + Send) -> T {
    host.namespace.run(work).unwrap()
}

/// Server and client.
#[derive(Debug)]
pub struct Hosts {
    /// The host with limiter.
    pub server: Host,
    /// The host that sends.
    pub client: Host,
}

impl Hosts {
    /// Two hosts that send nothing on their own. They have IPv4 addresses, know each other's, and lack IPv6.
    pub fn new() -> Self {
        Self::with(&[Address(SERVER, 24)], &[Address(CLIENT, 24)])
    }

    /// Two hosts with IPv4 and IPv6 addresses. On their own, they send only reports of multicast groups.
    pub fn of_both_families() -> Self {
        Self::with(
            &[Address(SERVER, 24), Address(SERVER_IPV6, 64)],
            &[Address(CLIENT, 24), Address(CLIENT_IPV6, 64)],
        )
    }

    /// Two hosts with these addresses.
    pub fn with(server: &[Address], client: &[Address]) -> Self {
        Self::of(Pair::new(server, client).unwrap())
    }

    /// Two hosts like those of [`Self::new`], with these network cards of this machine.
    pub fn of_cards(cards: [&str; 2]) -> Self {
        Self::of(Pair::of_cards(cards, &[Address(SERVER, 24)], &[Address(CLIENT, 24)]).unwrap())
    }

    fn of(pair: Pair) -> Self {
        Self {
            server: pair.left,
            client: pair.right,
        }
    }

    /// A UDP frame from the client to the server, with the source address `source`.
    pub fn frame(&self, source: IpAddr) -> Frame {
        Frame {
            macs: (self.client.mac, self.server.mac),
            ..Frame::from(source)
        }
    }

    /// The folder of pins of the server's `eth0`.
    pub fn pins(&self) -> PathBuf {
        self.server
            .namespace
            .run(|| pins::directory(INTERFACE))
            .unwrap()
            .unwrap()
    }

    /// Runs `limiter` on the server.
    pub fn limiter(&self, arguments: &(impl Arguments + ?Sized)) -> Outcome {
        let words = arguments.words();
        self.server.namespace.run(|| limiter(&words)).unwrap()
    }

    /// Runs `limiter` on the server with this text on standard input.
    pub fn limiter_fed(&self, arguments: &(impl Arguments + ?Sized), text: &str) -> Outcome {
        let words = arguments.words();
        self.server
            .namespace
            .run(|| limiter_fed(&words, text))
            .unwrap()
    }

    /// Runs `limiter` on the server. It must succeed; returns its output.
    #[track_caller]
    pub fn run(&self, arguments: &(impl Arguments + ?Sized)) -> String {
        let outcome = self.limiter(arguments);
        outcome.expect(0);
        outcome.stdout
    }

    /// Attaches on the server with a configuration file of this text; to `eth0` at the driver.
    pub fn attach_file(&self, text: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_wire = ["\"eth0\"", "'eth0'"]
            .iter()
            .any(|name| text.contains(name));
        let text = if is_wire { &at_driver(text) } else { text };
        fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        self.limiter(&["attach", "--config", path]).expect(0);
    }

    /// Runs `limiter` on the server. It must succeed; returns its JSON output.
    #[track_caller]
    pub fn json(&self, arguments: &(impl Arguments + ?Sized)) -> serde_json::Value {
        serde_json::from_str(&self.run(arguments)).unwrap()
    }

    /// The attachment, from `status --json`.
    pub fn status(&self) -> serde_json::Value {
        self.json("status eth0 --json")["interfaces"][0].clone()
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        detach_all_of(&self.server);
    }
}

/// Detaches all attachments of a host. Pins outlive namespaces: a failed test must not leave them. (`detach --all`
/// would also remove pins that other tests keep.)
pub fn detach_all_of(host: &Host) {
    let _ = host.namespace.block_on(|| async {
        let here = pins::namespace().ok();
        for folder in pins::folders().unwrap_or_default() {
            if Some(folder.namespace) == here {
                let _ = detach(&folder.interface).await;
            }
        }
    });
}
