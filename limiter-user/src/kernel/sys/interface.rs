//! An interface as netlink describes it.

use futures_util::TryStreamExt;
use rtnetlink::packet_route::link::{
    LinkAttribute, LinkFlags, LinkLayerType, LinkMessage, LinkXdp, XdpAttached,
};

use crate::kernel::{Error, Failed, Result, sys::LinkInfo};

/// The place where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In the device.
    Offloaded,
    /// In several modes at once.
    Multiple,
}

impl XdpMode {
    /// The mode's name in `status` and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
            Self::Multiple => "multiple",
        }
    }

    /// The flag of an attach: `XDP_FLAGS_SKB_MODE` or `XDP_FLAGS_DRV_MODE`.
    pub(in crate::kernel) fn flag(self) -> u32 {
        1 << if self == Self::Generic { 1 } else { 2 }
    }
}

/// The XDP program of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpState {
    /// The program's mode.
    pub mode: XdpMode,
    /// The program's id.
    pub program_id: u32,
}

/// Facts about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index in this network namespace.
    pub index: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether its frames begin with an Ethernet header.
    pub ethernet: bool,
    /// Whether this is a loopback interface.
    pub loopback: bool,
    /// The hardware address; zeros if it does not have six bytes.
    pub mac: [u8; 6],
    /// The largest payload of a frame, in bytes.
    pub mtu: u32,
    /// The device's name on its bus, such as `virtio2` (Linux 5.14); `None` for an interface made by software.
    pub parent: Option<String>,
    /// The XDP program on the interface.
    pub xdp: Option<XdpState>,
}

/// Bytes of a frame beyond the MTU: an Ethernet header and two VLAN tags.
const FRAMING: u64 = 14 + 2 * 4;
/// The most bytes of a packet in generic mode. Receive offload may have merged packets by then, up to this size
/// unless the interface's `gro_max_size` was raised.
const MERGED: u64 = 65_536;

impl Interface {
    /// The longest frame, in bytes, that a program in `mode` may see.
    pub fn frame_max(&self, mode: XdpMode) -> u64 {
        let frame = u64::from(self.mtu) + FRAMING;
        if mode == XdpMode::Generic {
            frame.max(MERGED + FRAMING)
        } else {
            frame
        }
    }
}

/// All interfaces of this network namespace.
pub async fn all() -> Result<Vec<Interface>> {
    let (connection, handle, _) = rtnetlink::new_connection().failed("opening netlink")?;
    let connection = tokio::spawn(connection);
    let links: Vec<LinkMessage> = handle.link().get().execute().try_collect().await?;
    connection.abort();
    // Every namespace has a loopback interface. An empty answer means that the request was not sent.
    if links.is_empty() {
        return Err(rtnetlink::Error::RequestFailed.into());
    }
    Ok(links.iter().filter_map(describe).collect())
}

/// The interface that a link is on. An interface that runs another program, or none, only has the same index: the
/// link's interface was moved to another network namespace.
pub fn of_link<'a>(interfaces: &'a [Interface], link: &LinkInfo) -> Option<&'a Interface> {
    let runs = |xdp: XdpState| xdp.program_id == link.program_id;
    interfaces
        .iter()
        .find(|interface| interface.index == link.interface && interface.xdp.is_some_and(runs))
}

/// Whether an interface has the link's index but runs another program. Then it is another interface, or the program
/// was swapped between the two reads.
pub(in crate::kernel) fn may_be_outdated(interfaces: &[Interface], link: &LinkInfo) -> bool {
    let mut others = interfaces
        .iter()
        .filter(|other| other.index == link.interface);
    others.any(|other| other.xdp.is_some()) && of_link(interfaces, link).is_none()
}

/// The interface of this name among `interfaces`.
pub fn named<'a>(interfaces: &'a [Interface], name: &str) -> Result<&'a Interface> {
    let found = interfaces.iter().find(|interface| interface.name == name);
    found.ok_or_else(|| Error::NoInterface(name.to_owned()))
}

/// The interface of this name in this network namespace.
pub async fn by_name(name: &str) -> Result<Interface> {
    named(&all().await?, name).cloned()
}

fn describe(link: &LinkMessage) -> Option<Interface> {
    let mut interface = Interface {
        name: String::new(),
        index: link.header.index,
        up: link.header.flags.contains(LinkFlags::Up),
        ethernet: has_ethernet(link),
        loopback: link.header.flags.contains(LinkFlags::Loopback),
        mac: [0; 6],
        mtu: 0,
        parent: None,
        xdp: None,
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Address(mac) => {
                interface.mac = mac.as_slice().try_into().unwrap_or_default();
            }
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::ParentDevName(name) => interface.parent = Some(name.clone()),
            LinkAttribute::Xdp(xdp) => interface.xdp = xdp_state(xdp),
            _ => {}
        }
    }
    (!interface.name.is_empty()).then_some(interface)
}

/// Whether frames begin with an Ethernet header. Those of the loopback do too (eth_type_trans in
/// drivers/net/loopback.c).
fn has_ethernet(link: &LinkMessage) -> bool {
    matches!(
        link.header.link_layer_type,
        LinkLayerType::Ether | LinkLayerType::Loopback
    )
}

fn xdp_state(attributes: &[LinkXdp]) -> Option<XdpState> {
    let mode = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::Driver) => Some(XdpMode::Native),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(XdpMode::Generic),
        LinkXdp::Attached(XdpAttached::Hardware) => Some(XdpMode::Offloaded),
        LinkXdp::Attached(XdpAttached::Multiple) => Some(XdpMode::Multiple),
        _ => None,
    })?;
    let program_id = attributes.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) => Some(*id),
        _ => None,
    })?;
    Some(XdpState { mode, program_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_message_gives_flags_link_type_and_parent() {
        let mut link = LinkMessage::default();
        link.attributes
            .push(LinkAttribute::IfName("eth0".to_owned()));
        link.header.flags = LinkFlags::Up | LinkFlags::Loopback;
        link.header.link_layer_type = LinkLayerType::Loopback;
        let found = describe(&link).expect("a name");
        assert!(found.up && found.loopback && found.ethernet && found.parent.is_none());
        link.header.flags = LinkFlags::empty();
        link.header.link_layer_type = LinkLayerType::None;
        link.attributes
            .push(LinkAttribute::ParentDevName("virtio2".to_owned()));
        let found = describe(&link).expect("a name");
        assert!(!found.up && !found.loopback && !found.ethernet);
        assert_eq!(found.parent.as_deref(), Some("virtio2"));
    }
}
