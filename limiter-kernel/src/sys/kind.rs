//! The kind of an interface: the interfaces below it, and whether programs on it see the packets that arrive.

use std::net::Ipv4Addr;

use rtnetlink::packet_route::link::{
    InfoAmt, InfoData, InfoGre, InfoGre6, InfoHsr, InfoIpVlan, InfoKind, InfoVxlan, IpVlanMode,
    LinkInfo, LinkLayerType,
};

use crate::Error;

/// Returns true if `IFLA_LINK` of an interface with this information names the interface below it, as that of a VLAN names
/// its card (`netdev_upper_dev_link`). Otherwise it names the other end of a pair, or the interface that the packets of a
/// tunnel leave on.
pub fn is_above_its_link(information: &[LinkInfo]) -> bool {
    use InfoKind::{
        ErSpan, GreTap, GreTap6, GreTun, GreTun6, Ip6ErSpan, Ip6Tnl, IpIp, Netkit, SitTun, Veth,
        Vti, Vti6, Vxcan, Xfrm,
    };
    let is_other = |information: &LinkInfo| {
        let LinkInfo::Kind(kind) = information else {
            return false;
        };
        let pair = matches!(kind, Veth | Netkit | Vxcan);
        let gre = matches!(
            kind,
            GreTun | GreTun6 | GreTap | GreTap6 | ErSpan | Ip6ErSpan
        );
        pair || gre || matches!(kind, IpIp | SitTun | Ip6Tnl | Vti | Vti6 | Xfrm)
    };
    !information.iter().any(is_other)
}

/// Indices of the interfaces below one with this information, if its kind has attributes of its own for them.
pub fn below(information: &[LinkInfo]) -> Vec<u32> {
    let mut indices = Vec::new();
    for information in information {
        match information {
            LinkInfo::Data(InfoData::Vxlan(all)) => {
                indices.extend(all.iter().filter_map(|attribute| match attribute {
                    InfoVxlan::Link(index) => Some(*index),
                    _ => None,
                }));
            }
            LinkInfo::Data(InfoData::Amt(all)) => {
                indices.extend(all.iter().filter_map(|attribute| match attribute {
                    InfoAmt::Link(index) => Some(*index),
                    _ => None,
                }));
            }
            LinkInfo::Data(InfoData::Hsr(all)) => {
                indices.extend(all.iter().filter_map(|attribute| match attribute {
                    InfoHsr::Port1(index) | InfoHsr::Port2(index) | InfoHsr::Interlink(index) => {
                        Some(*index)
                    }
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    indices
}

/// Returns true if packets that leave on GRE begin with the header of the outer packet, because `peer` is no host: none, or
/// on IPv4 a group (`ipgre_tunnel_init` in net/ipv4/ip_gre.c, `ip6gre_tunnel_init` in net/ipv6/ip6_gre.c).
pub fn sends_outer(layer: LinkLayerType, peer: &[u8], information: &[LinkInfo]) -> bool {
    // Each packet names its peer (`external`).
    let is_external = information.iter().any(|information| match information {
        LinkInfo::Data(InfoData::GreTun(all)) => all.contains(&InfoGre::CollectMetadata),
        LinkInfo::Data(InfoData::GreTun6(all)) => all.contains(&InfoGre6::CollectMetadata),
        _ => false,
    });
    let is_host = match layer {
        LinkLayerType::Ipgre => <[u8; 4]>::try_from(peer)
            .map(Ipv4Addr::from)
            .is_ok_and(|peer| !peer.is_unspecified() && !peer.is_multicast()),
        LinkLayerType::Ip6gre => peer.iter().any(|byte| *byte != 0),
        _ => true,
    };
    !is_host && !is_external
}

/// A kind of interface that packets reach behind the places where programs for incoming packets run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// It hands packets back to the interface that they came from (`ifb_ri_tasklet` in drivers/net/ifb.c).
    Ifb,
    /// It takes packets over from its ports in the IP layer (`vrf_l3_rcv` in drivers/net/vrf.c).
    Vrf,
    /// It takes packets over from the interface below in the IP layer (`ipvlan_nf_input` in
    /// drivers/net/ipvlan/ipvlan_l3s.c).
    IpvlanL3s,
}

impl Blind {
    /// The kind of an interface with this information, if programs there see no incoming packets.
    pub fn of(information: &[LinkInfo]) -> Option<Self> {
        information
            .iter()
            .find_map(|information| match information {
                LinkInfo::Kind(InfoKind::Ifb) => Some(Self::Ifb),
                LinkInfo::Kind(InfoKind::Vrf) => Some(Self::Vrf),
                LinkInfo::Data(InfoData::IpVlan(all)) => all
                    .contains(&InfoIpVlan::Mode(IpVlanMode::L3S))
                    .then_some(Self::IpvlanL3s),
                _ => None,
            })
    }

    /// The error for an attachment to the incoming packets of the interface called `name`.
    pub(crate) fn refusal(self, name: &str) -> Error {
        let (why, advice) = match self {
            Self::Ifb => (
                "it hands them back to the interface that they came from",
                format!(
                    "limit the packets that it sends (`{name}:out`), or attach to the interface whose packets are redirected to it"
                ),
            ),
            Self::Vrf => (
                "it takes them over from its ports in the IP layer",
                format!("attach to its ports (`ip link show master {name}` lists them)"),
            ),
            Self::IpvlanL3s => (
                "in mode l3s, it takes them over from the interface below in the IP layer",
                format!(
                    "attach to the interface below (`ip link show {name}` shows it behind the @), or make it in mode l3"
                ),
            ),
        };
        Error::Refused(format!(
            "limits on '{name}' would see no packet that comes in, because {why}: {advice}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_below_are_found_by_the_kind() {
        let kind = |kind| [LinkInfo::Kind(kind)];
        for above in [
            InfoKind::Vlan,
            InfoKind::MacVlan,
            InfoKind::IpVlan,
            InfoKind::MacSec,
        ] {
            assert!(is_above_its_link(&kind(above)));
        }
        for other in [InfoKind::Veth, InfoKind::GreTap, InfoKind::Xfrm] {
            assert!(!is_above_its_link(&kind(other)));
        }
        let data = |data| below(&[LinkInfo::Data(data)]);
        let vxlan = vec![InfoVxlan::Id(7), InfoVxlan::Link(2)];
        assert_eq!(data(InfoData::Vxlan(vxlan)), [2]);
        let hsr = vec![InfoHsr::Port1(2), InfoHsr::Port2(3), InfoHsr::Version(1)];
        assert_eq!(data(InfoData::Hsr(hsr)), [2, 3]);
        assert_eq!(data(InfoData::Amt(vec![InfoAmt::Link(5)])), [5]);
        assert!(below(&kind(InfoKind::Vlan)).is_empty());
    }

    #[test]
    fn packets_leave_on_gre_with_their_own_header_first_if_it_has_a_peer() {
        let (ipv4, ipv6) = (LinkLayerType::Ipgre, LinkLayerType::Ip6gre);
        let outer = |layer, peer: &[u8]| sends_outer(layer, peer, &[]);
        let [host, group] = ["2001:db8::1", "ff02::1"].map(|address| {
            let address: std::net::Ipv6Addr = address.parse().expect("an address");
            address.octets()
        });
        assert!(!outer(ipv4, &[192, 0, 2, 1]) && !outer(ipv6, &host) && !outer(ipv6, &group));
        assert!(outer(ipv4, &[0; 4]) && outer(ipv4, &[]) && outer(ipv6, &[0; 16]));
        assert!(outer(ipv4, &[224, 0, 0, 9]), "a group has many peers");
        assert!(!outer(LinkLayerType::Ether, &[]));
        let external = InfoData::GreTun(vec![InfoGre::CollectMetadata]);
        assert!(!sends_outer(ipv4, &[0; 4], &[LinkInfo::Data(external)]));
    }

    #[test]
    fn ipvlan_is_blind_only_in_mode_l3s() {
        let mode = |mode| {
            let modes = vec![InfoIpVlan::Mode(mode)];
            Blind::of(&[
                LinkInfo::Kind(InfoKind::IpVlan),
                LinkInfo::Data(InfoData::IpVlan(modes)),
            ])
        };
        assert_eq!(mode(IpVlanMode::L3S), Some(Blind::IpvlanL3s));
        assert_eq!(mode(IpVlanMode::L3), None);
        assert_eq!(mode(IpVlanMode::L2), None);
    }
}
