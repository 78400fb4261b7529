//! Each client behind a translator from IPv4 has a bucket of its own, and each VLAN, if limits tell VLANs apart.

use std::{fs, net::IpAddr};

use limiter_tests::{
    eventually,
    files::at_driver,
    hosts::{CLIENT, CLIENT_IPV6, Hosts},
    need_kernel, number,
    raw::Raw,
};
use serde_json::Value;

/// Sends each frame `count` times. Returns the number of dropped packets.
fn dropped(hosts: &Hosts, frame: &[u8], count: usize) -> u64 {
    let figures = || {
        let status = hosts.status();
        ["seen", "dropped"].map(|figure| number(&status[figure]["packets"]))
    };
    let before = figures();
    let wire = Raw::open(&hosts.client);
    (0..count).for_each(|_| wire.send(frame));
    eventually("all are seen", || figures()[0] >= before[0] + count as u64);
    figures()[1] - before[1]
}

/// The frame with these tags behind its addresses: the kind of each, and its id with the priority.
fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    let mut tagged = addresses.to_vec();
    for (kind, id) in tags {
        tagged.extend(kind.to_be_bytes());
        tagged.extend(id.to_be_bytes());
    }
    tagged.extend(rest);
    tagged
}

const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;

/// Modes of the program. In the network stack, the kernel has taken the outer tag off the frame.
const MODES: [&str; 3] = ["native", "generic", "tc"];

#[test]
fn each_vlan_has_its_own_bucket_by_its_outermost_tag() {
    need_kernel!();
    for (mode, source) in MODES.into_iter().zip([CLIENT, CLIENT_IPV6, CLIENT]) {
        let hosts = Hosts::new();
        hosts.attach_file(&format!(
            "interfaces = [\"eth0\"]\nmode = \"{mode}\"\n\
                 [[limit]]\nname = \"a\"\nkey = \"source,vlan\"\nrate = \"1/h\"\nburst = 3\n"
        ));
        let frame = hosts.frame(source).bytes();
        for (tags, burst, who) in [
            (&[][..], 3, "untagged"),
            (&[(VLAN, 0)], 0, "only a priority"),
            (&[(VLAN, 0xe000), (VLAN, 0)], 0, "only priorities"),
            (&[(VLAN, 20)], 3, "VLAN 20"),
            (&[(VLAN, 0xe014)], 0, "VLAN 20 with a priority"),
            (&[(VLAN, 0), (VLAN, 20)], 0, "VLAN 20 behind a priority"),
            (&[(SERVICE_VLAN, 20), (VLAN, 30)], 0, "customer of VLAN 20"),
            (&[(VLAN, 30)], 3, "VLAN 30"),
            (&[(VLAN, 4_095)], 3, "VLAN 4095"),
        ] {
            let lost = dropped(&hosts, &tagged(&frame, tags), 5);
            assert_eq!(lost, 5 - burst, "{mode}, {source}: {who}");
        }
        let source = source.to_string();
        let checked = hosts.json(&["check", "eth0", &source, "--vlan", "20", "--json"]);
        let bucket = checked["limits"][0]["bucket"].as_str().unwrap();
        assert!(bucket.ends_with(" vlan 20"), "{checked}");
        assert_eq!(checked["limits"][0]["dropped_packets"], 17, "{checked}");
        let all = hosts.json(&["check", "eth0", &source, "--json"]);
        assert_eq!(all["limits"].as_array().unwrap().len(), 4, "{all}");
        hosts.run(&format!("reset eth0 {source} --vlan 30"));
        assert_eq!(dropped(&hosts, &tagged(&frame, &[(VLAN, 30)]), 5), 2);
        assert_eq!(dropped(&hosts, &tagged(&frame, &[(VLAN, 20)]), 5), 5);
    }
}

#[test]
fn limit_on_vlans_matches_these_alone() {
    need_kernel!();
    for mode in MODES {
        let hosts = Hosts::new();
        hosts.attach_file(&format!(
            "interfaces = [\"eth0\"]\nmode = \"{mode}\"\n\
             [[limit]]\nname = \"some\"\nmatch = {{ vlan = [20, \"100-199\"] }}\nrate = \"1/h\"\nburst = 3\n\
             [[limit]]\nname = \"untagged\"\nmatch = {{ not = {{ vlan = \"0-4095\" }} }}\nrate = \"1/h\"\nburst = 4\n"
        ));
        let frame = hosts.frame(CLIENT).bytes();
        for (id, lost) in [
            (Some(20), 7),
            (Some(150), 10),
            (Some(21), 0),
            (Some(200), 0),
            (None, 6),
            (Some(0), 10),
        ] {
            let tags: Vec<_> = id.map(|id| (VLAN, id)).into_iter().collect();
            assert_eq!(
                dropped(&hosts, &tagged(&frame, &tags), 10),
                lost,
                "{mode}, {id:?}"
            );
        }
    }
}

/// A tag beside the frame, as a VLAN device on the other end of a veth sends it: XDP does not see it, and `attach` says so.
#[test]
fn hidden_tag_is_said_and_seen_in_the_network_stack() {
    need_kernel!();
    for mode in ["native", "tc"] {
        let hosts = Hosts::new();
        let file = format!(
            "interfaces = [\"eth0\"]\nmode = \"{mode}\"\n\
             [[limit]]\nname = \"a\"\nkey = \"interface,vlan\"\nrate = \"1/h\"\nburst = 3\n"
        );
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(path.path(), at_driver(file)).unwrap();
        let attached = hosts.limiter(&["attach", "--config", path.path().to_str().unwrap()]);
        attached.expect(0);
        let said = attached.stderr;
        assert_eq!(said.contains("rxvlan off"), mode == "native", "{said}");
        let diagnosis = hosts.json(&["doctor", "eth0", "--json"]);
        let findings = diagnosis["findings"].as_array().unwrap();
        let vlan = findings.iter().find(|finding| finding["check"] == "vlan");
        let level = if mode == "native" { "warning" } else { "ok" };
        assert_eq!(vlan.unwrap()["level"], level, "{diagnosis}");
    }
}

fn source(limit: &Value) -> &str {
    limit["bucket"].as_str().unwrap()
}

/// The well-known prefix and a named one.
#[test]
fn each_client_behind_a_translator_has_its_own_bucket() {
    need_kernel!();
    let hosts = Hosts::new();
    for limits in [1, 2] {
        let second =
            "[[limit]]\nname = \"network\"\nkey = \"/24,/48\"\nrate = \"1/h\"\nburst = 5\n";
        hosts.attach_file(&format!(
            "interfaces = [\"eth0\"]\nnat64 = [\"2001:db8:64::/96\"]\n\
             [[limit]]\nname = \"a\"\nrate = \"1/h\"\nburst = 3\n{}",
            second.repeat(limits - 1)
        ));
        for prefix in ["64:ff9b::", "2001:db8:64::"] {
            let client = |last: &str| -> IpAddr { format!("{prefix}{last}").parse().unwrap() };
            let lost = |address| dropped(&hosts, &hosts.frame(address).bytes(), 10);
            let (first, neighbour) = (client("192.0.2.7"), client("192.0.2.8"));
            assert_eq!(lost(first), 7, "{prefix}");
            // Of its /24, two packets are left.
            assert_eq!(lost(neighbour), if limits == 1 { 7 } else { 8 }, "{prefix}");
            assert_eq!(lost(client("198.51.100.7")), 7, "{prefix}");
            let checked = hosts.json(&["check", "eth0", &first.to_string(), "--json"]);
            assert_eq!(source(&checked["limits"][0]), first.to_string());
            if limits == 2 {
                let network = source(&checked["limits"][1]);
                assert!(network.ends_with("c000:200/120"), "{checked}");
            }
            let top = hosts.json(&["top", "eth0", "--once", "--json"]).to_string();
            assert!(top.contains(&format!("\"{neighbour}\"")), "{top}");
        }
        // Others keep their /64.
        let lost =
            |address: &str| dropped(&hosts, &hosts.frame(address.parse().unwrap()).bytes(), 10);
        assert_eq!(lost("2001:db8:65::1"), 7);
        assert_eq!(lost("2001:db8:65::2"), 10);
        hosts.run("detach eth0");
    }
}
