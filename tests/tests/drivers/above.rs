//! Interfaces of software that put their packets into packets of the interface below, and others that no test of
//! `devices` has.

use super::{
    compare_devices,
    devices::{BOND, Device, NONE, bond},
    path::{
        End::{Client, Server},
        Path,
    },
};

/// A tunnel called `up0` that carries Ethernet frames.
const TUNNEL: Device = Device {
    places: &["up0", "up0:out"],
    paths: &[
        Path::of("to the host", Client("up0"), Server("up0")),
        Path::of("from the host", Server("up0"), Client("up0")),
        Path::of("tagged", Client("up0"), Server("up0")).tagged(),
    ],
    ..NONE
};

const IPV6_ON: &str = "sysctl -q -w net.ipv6.conf.eth0.disable_ipv6=0";

#[test]
fn tunnels_with_ethernet_headers() {
    compare_devices(&[
        Device {
            name: "vxlan",
            server: &[
                "ip link add up0 type vxlan id 7 dstport 4789 local 192.0.2.1 remote 192.0.2.2 dev eth0",
                "ip link set up0 up",
            ],
            client: &[
                "ip link add up0 type vxlan id 7 dstport 4789 local 192.0.2.2 remote 192.0.2.1 dev eth0",
                "ip link set up0 up",
            ],
            ..TUNNEL
        },
        Device {
            name: "geneve",
            server: &[
                "ip link add up0 type geneve id 7 remote 192.0.2.2",
                "ip link set up0 up",
            ],
            client: &[
                "ip link add up0 type geneve id 7 remote 192.0.2.1",
                "ip link set up0 up",
            ],
            ..TUNNEL
        },
        Device {
            name: "gretap",
            server: &[
                "ip link add up0 type gretap local 192.0.2.1 remote 192.0.2.2",
                "ip link set up0 up",
            ],
            client: &[
                "ip link add up0 type gretap local 192.0.2.2 remote 192.0.2.1",
                "ip link set up0 up",
            ],
            ..TUNNEL
        },
        Device {
            name: "ip6gretap",
            server: &[
                IPV6_ON,
                "ip address add 2001:db8::1/64 dev eth0 nodad",
                "ip link add up0 type ip6gretap local 2001:db8::1 remote 2001:db8::2",
                "ip link set up0 up",
            ],
            client: &[
                IPV6_ON,
                "ip address add 2001:db8::2/64 dev eth0 nodad",
                "ip link add up0 type ip6gretap local 2001:db8::2 remote 2001:db8::1",
                "ip link set up0 up",
                "ping -c 3 2001:db8::1",
            ],
            ..TUNNEL
        },
        Device {
            name: "l2tpv3",
            server: &[
                "ip l2tp add tunnel tunnel_id 7 peer_tunnel_id 7 encap udp local 192.0.2.1 remote 192.0.2.2 udp_sport 5007 udp_dport 5007",
                "ip l2tp add session name up0 tunnel_id 7 session_id 1 peer_session_id 1",
                "ip link set up0 up",
            ],
            client: &[
                "ip l2tp add tunnel tunnel_id 7 peer_tunnel_id 7 encap udp local 192.0.2.2 remote 192.0.2.1 udp_sport 5007 udp_dport 5007",
                "ip l2tp add session name up0 tunnel_id 7 session_id 1 peer_session_id 1",
                "ip link set up0 up",
            ],
            ..TUNNEL
        },
    ]);
}

/// Both hosts have the same key.
macro_rules! macsec {
    ($own:literal, $peer:literal, $number:literal, $other:literal) => {
        &[
            concat!("ip link set eth0 address ", $own),
            "ip link add up0 link eth0 type macsec encrypt on",
            concat!(
                "ip macsec add up0 tx sa 0 pn 1 on key ",
                $number,
                " 81818181818181818181818181818181"
            ),
            concat!("ip macsec add up0 rx port 1 address ", $peer),
            concat!(
                "ip macsec add up0 rx port 1 address ",
                $peer,
                " sa 0 pn 1 on key ",
                $other,
                " 81818181818181818181818181818181"
            ),
            "ip link set up0 up",
        ]
    };
}

const IPVLAN: Device = Device {
    name: "ipvlan, mode l2",
    server: &[
        "ip link add up0 link eth0 type ipvlan mode l2",
        "ip address add 192.0.2.100/32 dev up0",
        "ip link set up0 up",
    ],
    places: &["up0", "eth0"],
    paths: &[
        Path::of("to the ipvlan", Client("eth0"), Server("up0")),
        Path::of("to the host", Client("eth0"), Server("eth0")),
    ],
    ..NONE
};

const NETKIT: Device = Device {
    name: "netkit",
    server: &[
        "ip link add up0 type netkit",
        "ip link set nk0 netns CLIENT",
        "ip link set up0 up",
    ],
    client: &["ip link set nk0 up"],
    places: &["up0", "up0:out"],
    paths: &[
        Path::of("to the host", Client("nk0"), Server("up0")),
        Path::of("from the host", Server("up0"), Client("nk0")),
    ],
    ..NONE
};

#[test]
fn macsec_hsr_ipvlan_and_netkit() {
    compare_devices(&[
        Device {
            name: "macsec",
            server: macsec!("02:00:00:00:00:11", "02:00:00:00:00:22", "01", "02"),
            client: macsec!("02:00:00:00:00:22", "02:00:00:00:00:11", "02", "01"),
            ..TUNNEL
        },
        Device {
            name: "hsr",
            server: &[
                "ip link add up0 type hsr slave1 eth0 slave2 eth1 version 1",
                "ip link set up0 up",
            ],
            client: &[
                "ip link add up0 type hsr slave1 eth0 slave2 eth1 version 1",
                "ip link set up0 up",
            ],
            ..TUNNEL
        },
        IPVLAN,
        NETKIT,
    ]);
}

#[test]
fn bonds_of_all_ports_at_once() {
    compare_devices(&[
        Device {
            name: "bond, balance-rr",
            server: bond!("balance-rr"),
            ..BOND
        },
        Device {
            name: "bond, 802.3ad",
            server: bond!("802.3ad"),
            // When a port's link is restarted, the other one becomes active, as there is no LACP at the other end.
            places: &["bond0"],
            ..BOND
        },
    ]);
}
