//! Two hosts and the cable between them.

use std::{fmt::Write as _, fs, io, net::IpAddr, os::fd::AsRawFd, process::Command};

use nix::{ifaddrs::getifaddrs, net::if_::if_nametoindex};

use super::Namespace;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub IpAddr, pub u8);

/// A host: a namespace with one interface, `eth0`.
#[derive(Clone, Debug)]
pub struct Host {
    /// The host's namespace.
    pub namespace: Namespace,
    /// Index of the host's `eth0`.
    pub index: u32,
    /// Hardware address of the host's `eth0`.
    pub mac: [u8; 6],
}

/// Name of every host's interface.
pub const INTERFACE: &str = "eth0";

/// Two hosts joined by a veth pair.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The first host.
    pub left: Host,
    /// The second host.
    pub right: Host,
}

impl Pair {
    /// Creates two hosts with these addresses. They know each other's hardware addresses, so that the wire carries
    /// only intended traffic. A host without an IPv6 address has no IPv6 at all.
    pub fn new(left: &[Address], right: &[Address]) -> io::Result<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        near.ip(&format!(
            "link add {INTERFACE} type veth peer name {INTERFACE} netns {}\n",
            path_of(&far)
        ))?;
        Self::join((near, left), (far, right))
    }

    /// Creates two hosts with these network cards of this machine, which a wire must join. The cards return to this
    /// machine with the last descriptor of their namespace.
    pub fn of_cards(cards: [&str; 2], left: &[Address], right: &[Address]) -> io::Result<Self> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        for (card, host) in cards.iter().zip(&hosts) {
            let path = path_of(host);
            let words = ["link", "set", card, "netns", &path, "name", INTERFACE];
            if !Command::new("ip").args(words).status()?.success() {
                return Err(io::Error::other(format!("{card} did not move")));
            }
        }
        let [near, far] = hosts;
        Self::join((near, left), (far, right))
    }

    fn join(
        (near, left): (Namespace, &[Address]),
        (far, right): (Namespace, &[Address]),
    ) -> io::Result<Self> {
        let pair = Self {
            left: bring_up(near, left)?,
            right: bring_up(far, right)?,
        };
        introduce(&pair.left, &pair.right, right)?;
        introduce(&pair.right, &pair.left, left)?;
        Ok(pair)
    }
}

/// A path that other processes can open.
fn path_of(namespace: &Namespace) -> String {
    let descriptor = namespace.file().as_raw_fd();
    format!("/proc/{}/fd/{descriptor}", std::process::id())
}

fn bring_up(namespace: Namespace, addresses: &[Address]) -> io::Result<Host> {
    let wants_ipv6 = addresses
        .iter()
        .any(|Address(address, _)| address.is_ipv6());
    let mut lines = String::new();
    for Address(address, length) in addresses {
        // Without duplicate address detection, the address works at once, and no packet is sent for it.
        let nodad = if address.is_ipv6() { " nodad" } else { "" };
        let _ = writeln!(
            lines,
            "address add {address}/{length} dev {INTERFACE}{nodad}"
        );
    }
    lines += &format!("link set {INTERFACE} up\n");
    let (index, mac) = namespace.run(|| {
        quieten(wants_ipv6)?;
        Ok::<_, io::Error>((if_nametoindex(INTERFACE)?, hardware_address()?))
    })??;
    namespace.ip(&lines)?;
    Ok(Host {
        namespace,
        index,
        mac,
    })
}

fn hardware_address() -> io::Result<[u8; 6]> {
    getifaddrs()?
        .filter(|entry| entry.interface_name == INTERFACE)
        .find_map(|entry| entry.address?.as_link_addr()?.addr())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Keeps the kernel from sending packets on its own: no unwanted IPv6, no link-local address, no router solicitations.
fn quieten(wants_ipv6: bool) -> io::Result<()> {
    let settings: &[(&str, &str)] = if wants_ipv6 {
        &[
            ("addr_gen_mode", "1"),
            ("router_solicitations", "0"),
            ("accept_dad", "0"),
        ]
    } else {
        &[("disable_ipv6", "1")]
    };
    for (name, value) in settings {
        let path = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/{name}");
        match fs::write(path, value) {
            // A kernel without IPv6 sends nothing.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Sets the hardware address of `other` on `host`.
fn introduce(host: &Host, other: &Host, addresses: &[Address]) -> io::Result<()> {
    let mac = other.mac.map(|byte| format!("{byte:02x}")).join(":");
    let lines: String = addresses
        .iter()
        .map(|Address(address, _)| {
            format!("neighbour add {address} lladdr {mac} dev {INTERFACE} nud permanent\n")
        })
        .collect();
    host.namespace.ip(&lines)
}
