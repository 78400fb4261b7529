//! Interfaces that software makes: bonds, teams, VLANs, bridges, macvlans, and taps of virtual machines.

use limiter_tests::{
    model::merged::{Kind, Merged},
    need, need_kernel,
    packet::Segment,
};

use super::{
    bench::Bench,
    card::LIMIT,
    compare_devices,
    path::{End, Path},
};
use End::{Client, Guest, Server};

/// An interface of software, and the others that its packets pass.
pub struct Device {
    /// Its name on the page.
    pub name: &'static str,
    /// The kind of the two cards below it, as in `cards.txt`. None: two wires, `eth0` and `eth1`.
    pub card: Option<&'static str>,
    /// Commands on the server that make it. `CLIENT` stands for the client's network namespace.
    pub server: &'static [&'static str],
    /// Commands on the client, at the other end of the wires.
    pub client: &'static [&'static str],
    /// Interfaces of the server to attach to.
    pub places: &'static [&'static str],
    /// Ways of packets.
    pub paths: &'static [Path],
}

pub const NONE: Device = Device {
    name: "",
    card: None,
    server: &[],
    client: &[],
    places: &[],
    paths: &[],
};

pub const BOND: Device = Device {
    places: &["bond0", "eth0"],
    paths: &[
        Path::of("first port", Client("eth0"), Server("bond0")),
        Path::of("second port", Client("eth1"), Server("bond0")),
        Path::of("tagged", Client("eth0"), Server("bond0")).tagged(),
    ],
    ..NONE
};

/// The commands that make a bond of this mode of both wires.
macro_rules! bond {
    ($mode:literal) => {
        &[
            concat!("ip link add bond0 type bond mode ", $mode),
            "ip link set eth0 down",
            "ip link set eth1 down",
            "ip link set eth0 master bond0",
            "ip link set eth1 master bond0",
            "ip link set bond0 up",
        ]
    };
}
pub(super) use bond;

const ACTIVE_BACKUP: Device = Device {
    name: "bond, active-backup",
    server: bond!("active-backup"),
    ..BOND
};

#[test]
fn bonds() {
    compare_devices(&[
        ACTIVE_BACKUP,
        Device {
            name: "bond, balance-xor",
            server: bond!("balance-xor"),
            ..BOND
        },
        Device {
            name: "bond, balance-alb",
            server: bond!("balance-alb"),
            places: &["bond0"],
            ..BOND
        },
    ]);
}

/// The kernel gives the program of a bond to its ports, which have room for one.
#[test]
fn bond_and_its_port_have_one_native_program() {
    need_kernel!();
    let Some(bench) = Bench::new(&ACTIVE_BACKUP) else {
        return;
    };
    let hosts = &bench.hosts;
    hosts.run("attach bond0 --rate 5");
    let words = ["'bond0' is above 'eth0'", "--hook tc"];
    let attach = hosts.limiter("attach eth0 --rate 5");
    attach.expect_error(1, &words);
    hosts.limiter("doctor eth0").expect(1);
    hosts.run("detach bond0");
    hosts.run("attach eth0 --rate 5");
    assert_eq!(hosts.status()["mode"], "native");
    let foreseen = hosts.json("doctor bond0 --json")["mode"].clone();
    assert!(foreseen == "generic" || foreseen == "unknown", "{foreseen}");
    hosts.run("attach bond0 --rate 5");
    let status = bench.status("bond0");
    assert_eq!(
        status["fallback"],
        "its port 'eth0' has a program of its own"
    );
}

const TEAM: Device = Device {
    name: "team, activebackup",
    server: &[
        "ip link add team0 type team",
        "teamnl team0 setoption mode activebackup",
        "ip link set eth0 down",
        "ip link set eth1 down",
        "ip link set eth0 master team0",
        "ip link set eth1 master team0",
        "ip link set team0 up",
        "teamnl team0 setoption activeport 1001",
    ],
    places: &["team0", "eth1"],
    paths: &[
        Path::of("active port", Client("eth1"), Server("team0")),
        Path::of("other port", Client("eth0"), Server("team0")),
        Path::of("tagged", Client("eth1"), Server("team0")).tagged(),
    ],
    ..NONE
};

#[test]
fn teams() {
    compare_devices(&[TEAM]);
}

const VLAN: Device = Device {
    server: &[
        "ip link add eth0.7 link eth0 type vlan id 7",
        "ip link set eth0.7 up",
    ],
    client: &[
        "ip link add eth0.7 link eth0 type vlan id 7",
        "ip link set eth0.7 up",
    ],
    places: &["eth0", "eth0.7"],
    paths: &[
        Path::of("untagged", Client("eth0"), Server("eth0")),
        Path::of("tagged", Client("eth0"), Server("eth0.7")).tagged(),
        Path::of("tagged by offload", Client("eth0.7"), Server("eth0.7")).offloaded(),
    ],
    ..NONE
};

#[test]
fn vlans() {
    compare_devices(&[
        Device {
            name: "VLAN on veth",
            ..VLAN
        },
        Device {
            name: "VLAN on e1000e",
            card: Some("e1000e"),
            ..VLAN
        },
        Device {
            name: "VLAN on igb",
            card: Some("igb"),
            ..VLAN
        },
        Device {
            name: "VLAN on igb, rxvlan off",
            card: Some("igb"),
            server: &[
                "ip link add eth0.7 link eth0 type vlan id 7",
                "ip link set eth0.7 up",
                "ethtool -K eth0 rxvlan off",
            ],
            ..VLAN
        },
    ]);
}

const BRIDGE: Device = Device {
    name: "bridge",
    server: &[
        "ip link add br0 type bridge mcast_snooping 0",
        "ip link set eth0 master br0",
        "ip link set eth1 master br0",
        "ip link set br0 up",
    ],
    places: &["br0", "eth0"],
    paths: &[
        Path::of("to the host", Client("eth0"), Server("br0")),
        Path::of("forwarded", Client("eth0"), Client("eth1")),
        Path::of("tagged", Client("eth0"), Server("br0")).tagged(),
    ],
    ..NONE
};

#[test]
fn bridges() {
    compare_devices(&[BRIDGE]);
}

const MACVLAN: Device = Device {
    name: "macvlan",
    server: &[
        "ip link add mv0 link eth0 type macvlan mode bridge",
        "ip link set mv0 up",
    ],
    places: &["mv0", "eth0"],
    paths: &[
        Path::of("to the macvlan", Client("eth0"), Server("mv0")),
        Path::of("to the parent", Client("eth0"), Server("eth0")),
        Path::of("tagged", Client("eth0"), Server("mv0")).tagged(),
    ],
    ..NONE
};

const MACVTAP: Device = Device {
    name: "macvtap of a virtual machine",
    server: &[
        "ip link add mvt0 link eth0 type macvtap mode bridge",
        "ip link set mvt0 up",
    ],
    places: &["mvt0", "mvt0:out", "eth0"],
    paths: &[
        Path::of("to the guest", Client("eth0"), Server("mvt0")),
        Path::of("from the guest", Server("mvt0"), Client("eth0")),
        Path::of("tagged", Client("eth0"), Server("mvt0")).tagged(),
    ],
    ..NONE
};

#[test]
fn macvlans() {
    compare_devices(&[MACVLAN]);
}

#[test]
fn macvtaps() {
    compare_devices(&[MACVTAP]);
}

const TAP: Device = Device {
    name: "tap of a virtual machine",
    server: &["ip link set tap0 up"],
    places: &["tap0", "tap0:out"],
    paths: &[
        Path::of("from the guest", Guest, Server("tap0")),
        Path::of("to the guest", Server("tap0"), Guest),
        Path::of("tagged", Guest, Server("tap0")).tagged(),
    ],
    ..NONE
};

#[test]
fn taps() {
    compare_devices(&[TAP]);
}

/// XDP sees packets that the guest's card has not cut into segments. `attach` and `doctor` say so.
#[test]
fn merged_packets_of_a_guest_count_as_the_packets_they_were_only_in_mode_tc() {
    need_kernel!();
    let Some(bench) = Bench::new(&TAP) else {
        return;
    };
    let [first, ..] = TAP.paths else {
        panic!("a path from the guest")
    };
    let frame = bench
        .ends(first, 1)
        .tcp_with(Segment::Data, &[0; 10 * 1_448]);
    let (headers, payload) = frame.split_at(14 + 20 + 20);
    let merged = Merged {
        headers: headers.to_vec(),
        payload: payload.to_vec(),
        segment: 1_448,
        kind: Kind::Tcp,
        is_ipv6: false,
        transport: 34,
        in_udp: false,
    };
    for (hook, packets) in [("xdp", 1), ("tc", 10)] {
        if hook == "tc" && !need::tcx() {
            return;
        }
        let advice = "--hook tc";
        let attached = bench
            .hosts
            .run(&format!("attach tap0 --hook {hook} {LIMIT}"));
        assert_eq!(attached.contains(advice), hook == "xdp", "{attached}");
        bench.guest.as_ref().unwrap().arrive_merged(&merged);
        let counts = bench.more("tap0", &mut [0; 3], |seen| seen == packets);
        assert_eq!(counts[2], packets, "all fit the burst");
        bench.hosts.run("detach tap0");
    }
}
