//! The kernel takes no program below an interface that has one, and shows a program on some interfaces no packet.
//! `attach` and `doctor` say so.

use std::{
    iter,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    time::Duration,
};

use limiter_tests::{
    eventually,
    foreign::{Foreign, PLAIN, bpftool},
    hosts::{Hosts, SERVER, on},
    need, need_kernel, need_program,
};

use super::{are_on_page, card::run};

/// The finding of one check of `doctor`, as JSON.
fn found(hosts: &Hosts, interface: &str, check: &str) -> String {
    let outcome = hosts.limiter(&["doctor", interface, "--json"]);
    let diagnosis: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mut findings = diagnosis["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["check"] == check);
    finding.unwrap().to_string()
}

/// The kernel links an interface with those above it, however they name it.
#[test]
fn program_on_any_kind_of_interface_above_is_named() {
    need_kernel!();
    let hosts = Hosts::new();
    let mut checked = Vec::new();
    for (name, made_by) in [
        ("vx0", "link add vx0 type vxlan id 7 dstport 4789 dev eth0"),
        ("mv0", "link add mv0 link eth0 type macvlan"),
        ("mvt0", "link add mvt0 link eth0 type macvtap"),
        ("eth0.7", "link add eth0.7 link eth0 type vlan id 7"),
        ("ipvl0", "link add ipvl0 link eth0 type ipvlan mode l2"),
        ("macsec0", "link add macsec0 link eth0 type macsec"),
        ("hsr0", "link add hsr0 type hsr slave1 eth0 slave2 far"),
    ] {
        let _ = run(&hosts.server, "ip link add near type veth peer name far");
        if let Err(why) = run(&hosts.server, &format!("ip {made_by}")) {
            need::of_kernel("program_on_any_kind_of_interface_above_is_named", made_by);
            eprintln!("{why}");
            continue;
        }
        hosts.run(&format!("attach {name} --rate 5 --mode generic"));
        let words = [&*format!("'{name}' is above 'eth0'"), "--hook tc"];
        let finding = found(&hosts, "eth0", "program");
        assert!(words.iter().all(|word| finding.contains(word)), "{finding}");
        for mode in ["auto", "native", "generic"] {
            let attach = hosts.limiter(&format!("attach eth0 --rate 5 --mode {mode}"));
            attach.expect_error(1, &words);
        }
        hosts.run(&format!("detach {name}"));
        hosts.run("attach eth0 --rate 5 --mode generic");
        hosts.run("detach eth0");
        run(&hosts.server, &format!("ip link delete {name}")).unwrap();
        checked.push(name);
    }
    for always in ["vx0", "mv0", "mvt0"] {
        assert!(checked.contains(&always), "{always} was not checked");
    }
}

/// `IFLA_LINK` of a veth names its other end, and that of a tunnel the interface of its route.
#[test]
fn program_beside_the_interface_is_not_in_the_way() {
    const TEST: &str = "program_beside_the_interface_is_not_in_the_way";
    need_kernel!();
    let hosts = Hosts::new();
    let tunnel = "type gretap local 192.0.2.1 remote 192.0.2.2 dev eth0";
    for (name, made_by, other) in [
        ("far", "type veth peer name near", "near"),
        ("tap1", tunnel, "eth0"),
    ] {
        if run(&hosts.server, &format!("ip link add {name} {made_by}")).is_err() {
            need::of_kernel(TEST, made_by);
            continue;
        }
        hosts.run(&format!("attach {name} --rate 5 --mode generic"));
        let finding = found(&hosts, other, "program");
        assert!(
            finding.contains("no XDP program is attached\""),
            "{finding}"
        );
        hosts.run(&format!("attach {other} --rate 5 --mode generic"));
        hosts.run(&format!("detach {name} {other}"));
    }
}

/// A kind of interface that packets reach behind the hooks.
struct Blind {
    /// Its name on the page.
    kind: &'static str,
    name: &'static str,
    /// Commands on the server. The first one fails if the kernel lacks the kind.
    made_by: &'static [&'static str],
    /// The address that packets are sent to.
    address: IpAddr,
    advice: &'static str,
}

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));

const BLIND: [Blind; 3] = [
    Blind {
        kind: "ifb",
        name: "ifb0",
        made_by: &[
            "ip link add ifb0 type ifb",
            "ip link set ifb0 up",
            "tc qdisc add dev eth0 clsact",
            "tc filter add dev eth0 ingress protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0",
        ],
        address: SERVER,
        advice: "`ifb0:out`",
    },
    Blind {
        kind: "vrf",
        name: "vrf0",
        made_by: &[
            "ip link add vrf0 type vrf table 7",
            "ip link set vrf0 up",
            "ip link set eth0 master vrf0",
            "sysctl -q -w net.ipv4.udp_l3mdev_accept=1",
        ],
        address: SERVER,
        advice: "ip link show master vrf0",
    },
    Blind {
        kind: "ipvlan, mode l3s",
        name: "ipvl0",
        made_by: &[
            "ip link add ipvl0 link eth0 type ipvlan mode l3s",
            "ip address add 192.0.2.50/32 dev ipvl0",
            "ip link set ipvl0 up",
        ],
        address: OTHER,
        advice: "ip link show ipvl0",
    },
];

/// A program of another tool, attached there, sees none of the packets that a socket of the host receives.
#[test]
fn interfaces_whose_incoming_packets_no_program_sees_are_refused() {
    const TEST: &str = "interfaces_whose_incoming_packets_no_program_sees_are_refused";
    need_kernel!();
    need_program!("bpftool");
    for kind in &BLIND {
        let (hosts, name) = (Hosts::new(), kind.name);
        let [first, others @ ..] = kind.made_by else {
            panic!("no command makes {name}")
        };
        if run(&hosts.server, first).is_err() {
            assert_ne!(name, "ifb0");
            need::of_kernel(TEST, first);
            continue;
        }
        for line in others {
            run(&hosts.server, line).unwrap();
        }
        let mac = hosts.server.mac.map(|byte| format!("{byte:02x}")).join(":");
        let neighbour = format!("ip neighbour replace {OTHER} lladdr {mac} dev eth0 nud permanent");
        run(&hosts.client, &neighbour).unwrap();

        let words = [
            &*format!("limits on '{name}' would see no packet"),
            kind.advice,
        ];
        for mode in ["auto", "generic", "tc"] {
            let attach = hosts.limiter(&format!("attach {name} --rate 5 --mode {mode}"));
            attach.expect_error(1, &words);
        }
        let learn = hosts.limiter(&format!("learn {name} --for 1s"));
        learn.expect_error(1, &words);
        let finding = found(&hosts, name, "interface");
        assert!(words.iter().all(|word| finding.contains(word)), "{finding}");

        let foreign = Foreign::load(PLAIN);
        let id = foreign.id.to_string();
        let attach = ["net", "attach", "xdpgeneric", "id", &id, "dev", name];
        assert!(bpftool(&hosts, &attach));
        eventually("packets arrive", || {
            received(&hosts, kind.address) == PACKETS
        });
        assert_eq!(foreign.seen(), 0, "{name}");
        let mut rows = vec![format!(
            "| {} | `{name}` | refused: no program there sees a packet | none | - |",
            kind.kind
        )];
        if name == "ifb0" && need::tcx() {
            hosts.run("attach ifb0:out --rate 1/h --burst 2");
            assert_eq!(received(&hosts, kind.address), 2);
            rows.push("| ifb | `ifb0:out` | tc | redirected to it | - |".to_owned());
        }
        rows.iter().for_each(|row| println!("{row}"));
        are_on_page(&rows);
    }
}

const PACKETS: usize = 5;

/// Sends packets from the client to this address of the server. Returns the number of those that a socket receives.
fn received(hosts: &Hosts, address: IpAddr) -> usize {
    let receiver = on(&hosts.server, || UdpSocket::bind("0.0.0.0:9")).unwrap();
    let sender = on(&hosts.client, || UdpSocket::bind("0.0.0.0:0")).unwrap();
    for _ in 0..PACKETS {
        sender.send_to(&[7; 18], (address, 9)).unwrap();
    }
    let patience = Some(Duration::from_millis(300));
    receiver.set_read_timeout(patience).unwrap();
    iter::from_fn(|| receiver.recv(&mut [0; 64]).ok()).count()
}
