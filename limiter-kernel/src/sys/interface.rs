//! An interface as netlink describes it.

use std::io;

use futures_util::TryStreamExt;
use limiter_config::{
    Direction,
    names::{OUT, direction_of},
};
use rtnetlink::{
    Handle,
    packet_core::DefaultNla,
    packet_route::{
        link::{
            InfoKind, LinkAttribute, LinkFlags, LinkInfo as Info, LinkLayerType, LinkMessage,
            LinkXdp, XdpAttached,
        },
        tc::{TcAttribute, TcMessage},
    },
};

use crate::{
    Error, Failed, Result,
    sys::{
        LinkInfo,
        bpf::{self, BPF_TCX_EGRESS, BPF_XDP},
        kind::{self, Blind},
        netlink,
    },
};

/// The place where a program runs.
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
    /// Not XDP: in the network stack (tcx), where packets have a socket buffer.
    Tc,
}

impl XdpMode {
    /// The mode's name in `status` and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
            Self::Multiple => "multiple",
            Self::Tc => "tc",
        }
    }

    /// The flag of an attach: `XDP_FLAGS_SKB_MODE` or `XDP_FLAGS_DRV_MODE`.
    pub(crate) fn flag(self) -> u32 {
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The interface's index in this network namespace.
    pub index: u32,
    /// True if it is switched on.
    pub up: bool,
    /// True if its frames begin with an Ethernet header.
    pub ethernet: bool,
    /// True if its packets begin with the IP header, except that of [`Self::sends_outer`].
    pub bare_ip: bool,
    /// True for GRE without a peer, where packets that leave begin with the header of the outer packet.
    pub sends_outer: bool,
    /// True if this is a loopback interface.
    pub loopback: bool,
    /// True for a tun or tap, whose other end (a virtual machine) may send merged packets.
    pub tap: bool,
    /// True for a veth, whose other end sends without segmentation offload while this end runs a program in native mode
    /// (`veth_fix_features` in drivers/net/veth.c).
    pub veth: bool,
    /// The hardware address; zeros if it does not have six bytes.
    pub mac: [u8; 6],
    /// The largest payload of a frame, in bytes.
    pub mtu: u32,
    /// The device's name on its bus, such as `virtio2` (Linux 5.14); `None` for an interface made by software.
    pub parent: Option<String>,
    /// The XDP program on the interface; for an attachment in the network stack, that one.
    pub xdp: Option<XdpState>,
    /// Index of the bond, bridge or team that the interface is a port of.
    pub master: Option<u32>,
    /// Indices of the interfaces below this one, such as the card of a VLAN.
    pub below: Vec<u32>,
    /// The kind of an interface whose incoming packets no program on it sees.
    pub blind: Option<Blind>,
    /// An interface above this one that has an XDP program. Only [`by_name`] finds it.
    pub program_above: Option<String>,
    /// A port of this interface that has an XDP program. Only [`by_name`] finds it.
    pub program_below: Option<String>,
}

/// Bytes of a frame beyond the MTU: an Ethernet header and two VLAN tags.
const FRAMING: u64 = 14 + 2 * 4;
/// The most bytes of a packet in the network stack. Receive offload may have merged packets by then, up to this size
/// unless the interface's `gro_max_size` was raised.
const MERGED: u64 = 65_536;

impl Interface {
    /// The longest frame, in bytes, that a program in `mode` may see.
    pub fn frame_max(&self, mode: XdpMode) -> u64 {
        let frame = u64::from(self.mtu) + FRAMING;
        if self.tap || matches!(mode, XdpMode::Generic | XdpMode::Tc) {
            frame.max(MERGED + FRAMING)
        } else {
            frame
        }
    }

    /// Returns true if the program finds the IP header of packets in this direction.
    pub fn is_read(&self, direction: Direction) -> bool {
        self.ethernet || self.bare_ip && !(self.sends_outer && direction == Direction::Out)
    }

    /// Fails if programs for packets in this direction would see none of them.
    pub fn is_seen(&self, direction: Direction) -> Result<()> {
        match self.blind {
            Some(blind) if direction == Direction::In => Err(blind.refusal(&self.name)),
            _ => Ok(()),
        }
    }
}

/// All interfaces of this network namespace.
pub async fn all() -> Result<Vec<Interface>> {
    let links = netlink::ask(async |handle| handle.link().get().execute().try_collect().await);
    let links: Vec<LinkMessage> = links.await.failed("opening netlink")??;
    // Every namespace has a loopback interface. An empty answer means that the request was not sent.
    if links.is_empty() {
        return Err(rtnetlink::Error::RequestFailed.into());
    }
    Ok(links.iter().filter_map(describe).collect())
}

/// The interface that a link is on. An interface that runs another program, or none, only has the same index: the
/// link's interface was moved to another network namespace.
///
/// For a link in the network stack, the state is that of the link's program, and the name says the direction.
pub fn of_link(interfaces: &[Interface], link: &LinkInfo) -> Option<Interface> {
    let mut found = interfaces
        .iter()
        .find(|interface| interface.index == link.interface)?
        .clone();
    // Readers may not ask for the programs in the network stack.
    if !runs_on(&found, link).unwrap_or_else(|error| error.raw_os_error() == Some(libc::EPERM)) {
        return None;
    }
    if link.attach_type != BPF_XDP {
        let (mode, program_id) = (XdpMode::Tc, link.program_id);
        found.xdp = Some(XdpState { mode, program_id });
    }
    if link.attach_type == BPF_TCX_EGRESS {
        found.name.push_str(OUT);
    }
    Some(found)
}

/// Returns true if the interface with the link's index runs the link's program. Program ids are unique in all network
/// namespaces. For a link in the network stack, asking needs `CAP_NET_ADMIN`.
pub(crate) fn runs_on(interface: &Interface, link: &LinkInfo) -> io::Result<bool> {
    let program_id = link.program_id;
    if interface.index != link.interface {
        return Ok(false);
    }
    if link.attach_type == BPF_XDP {
        let state = interface.xdp;
        return Ok(state.is_some_and(|state| state.program_id == program_id));
    }
    Ok(bpf::programs(link.interface, link.attach_type)?.contains(&program_id))
}

/// Returns true if an interface has the link's index but runs another program. Then it is another interface, or the
/// program was swapped between the two reads.
pub(crate) fn may_be_outdated(interfaces: &[Interface], link: &LinkInfo) -> bool {
    let mut others = interfaces
        .iter()
        .filter(|other| other.index == link.interface);
    others.any(|other| other.xdp.is_some() || link.attach_type != BPF_XDP)
        && of_link(interfaces, link).is_none()
}

/// The name in place of `name`, which may be an alternative one (`altname` of `ip link`); [`OUT`] stays behind it. The same
/// name if there is no such interface.
pub async fn real_name(name: &str) -> String {
    // include/uapi/linux/if_link.h
    const IFLA_ALT_IFNAME: u16 = 53;
    let (wanted, direction) = direction_of(name);
    let bytes = [wanted.as_bytes(), &[0]].concat();
    let wanted = LinkAttribute::Other(DefaultNla::new(IFLA_ALT_IFNAME, bytes));
    let question = async |handle: Handle| {
        // Without an index, the kernel looks up the name.
        let mut question = handle.link().get().match_index(0);
        question.message_mut().attributes.push(wanted);
        question.execute().try_next().await.ok().flatten()
    };
    let link = netlink::ask(question).await.ok().flatten();
    let Some(found) = link.as_ref().and_then(describe) else {
        return name.to_owned();
    };
    match direction {
        Direction::In => found.name,
        Direction::Out => found.name + OUT,
    }
}

/// The interface of this name among `interfaces`.
pub fn named<'a>(interfaces: &'a [Interface], name: &str) -> Result<&'a Interface> {
    let (name, _) = direction_of(name);
    let found = interfaces.iter().find(|interface| interface.name == name);
    found.ok_or_else(|| Error::NoInterface(name.to_owned()))
}

/// The interface of this name in this network namespace. For an attachment to the packets that it sends, no XDP program
/// matters.
pub async fn by_name(name: &str) -> Result<Interface> {
    let all = all().await?;
    let mut found = named(&all, name)?.clone();
    if direction_of(name).1 == Direction::Out {
        name.clone_into(&mut found.name);
        found.xdp = None;
        return Ok(found);
    }
    for other in all.iter().filter(|other| other.xdp.is_some()) {
        if found.master == Some(other.index) || other.below.contains(&found.index) {
            found.program_above = Some(other.name.clone());
        } else if other.master == Some(found.index) {
            found.program_below = Some(other.name.clone());
        }
    }
    Ok(found)
}

/// Returns true if the interface with this index lets each packet leave at its time: its qdisc is `fq`, or `mq` with `fq`
/// for each queue.
pub async fn has_fq(index: u32) -> Result<bool> {
    let all = netlink::ask(async |handle| handle.qdisc().get().execute().try_collect().await);
    let all: Vec<TcMessage> = all.await.failed("opening netlink")??;
    let mut has_fq = None;
    let own = all
        .iter()
        .filter(|qdisc| qdisc.header.index.cast_unsigned() == index);
    for attribute in own.flat_map(|qdisc| &qdisc.attributes) {
        match attribute {
            TcAttribute::Kind(kind) if ["mq", "clsact", "ingress"].contains(&&**kind) => {}
            TcAttribute::Kind(kind) => has_fq = Some(kind == "fq" && has_fq.unwrap_or(true)),
            _ => {}
        }
    }
    Ok(has_fq.unwrap_or(false))
}

fn describe(link: &LinkMessage) -> Option<Interface> {
    use LinkLayerType::{
        Ether, Ip6gre, Ipgre, Loopback, None as Bare, Ppp, Rawip, Sit, Tunnel, Tunnel6,
    };
    let layer = link.header.link_layer_type;
    let mut interface = Interface {
        index: link.header.index,
        up: link.header.flags.contains(LinkFlags::Up),
        // Frames of the loopback begin with an Ethernet header too (eth_type_trans in drivers/net/loopback.c).
        ethernet: [Ether, Loopback].contains(&layer),
        // In the network stack, on tun, WireGuard, PPP and tunnels between two addresses. On others, such as InfiniBand,
        // packets begin with another header.
        bare_ip: [Bare, Ppp, Rawip, Sit, Tunnel, Tunnel6, Ipgre, Ip6gre].contains(&layer),
        loopback: link.header.flags.contains(LinkFlags::Loopback),
        ..Interface::default()
    };
    let (mut information, mut peer) = (&[][..], &[][..]);
    let (mut link_below, mut is_elsewhere) = (None, false);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Address(mac) => {
                interface.mac = mac.as_slice().try_into().unwrap_or_default();
            }
            LinkAttribute::Broadcast(bytes) => peer = bytes,
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::LinkInfo(infos) => {
                interface.tap = infos.contains(&Info::Kind(InfoKind::Tun));
                interface.veth = infos.contains(&Info::Kind(InfoKind::Veth));
                interface.blind = Blind::of(infos);
                information = infos;
            }
            LinkAttribute::Controller(index) => interface.master = Some(*index),
            LinkAttribute::Link(index) => link_below = Some(*index),
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::ParentDevName(name) => interface.parent = Some(name.clone()),
            LinkAttribute::Xdp(xdp) => interface.xdp = xdp_state(xdp),
            _ => {}
        }
    }
    interface.sends_outer = kind::sends_outer(layer, peer, information);
    // Otherwise, the indices are those of another network namespace.
    if !is_elsewhere {
        let link_below = link_below.filter(|_| kind::is_above_its_link(information));
        interface.below = link_below.into_iter().collect();
        interface.below.extend(kind::below(information));
    }
    (!interface.name.is_empty()).then_some(interface)
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

    #[test]
    fn link_message_gives_the_interfaces_around_and_whether_packets_may_be_merged() {
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName("eth0.7".to_owned()),
            LinkAttribute::Mtu(1500),
            LinkAttribute::Link(2),
            LinkAttribute::Controller(3),
        ];
        let found = describe(&link).expect("a name");
        assert_eq!((&*found.below, found.master), (&[2][..], Some(3)));
        assert_eq!(found.frame_max(XdpMode::Native), 1522);
        link.attributes.push(LinkAttribute::LinkNetNsId(0));
        let tap = Info::Kind(InfoKind::Tun);
        link.attributes.push(LinkAttribute::LinkInfo(vec![tap]));
        let found = describe(&link).expect("a name");
        assert!(found.below.is_empty(), "in another network namespace");
        assert_eq!(found.frame_max(XdpMode::Native), 65_558);
    }
}
