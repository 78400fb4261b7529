//! The saved picture of ordinary traffic, and captures on the command line.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use fastrand::Rng;
use limiter_tests::{
    captures::pcap,
    command::limiter,
    database::{self, Branch, Tree, entry, map, text},
    files::Folder,
    hosts::{CLIENT, Hosts},
    need_kernel,
    traffic::{Flood, Traffic, udp},
};

use super::{
    generated::{Attack, Ordinary, capture},
    live::{Saved, of_captures, ordinary},
};

#[test]
fn picture_is_of_root_alone_and_has_no_address_and_no_payload() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M/s --new-sources none");
    let saved = Saved::of(&hosts);
    let traffic = Flood::start(&hosts, ordinary(&hosts), Duration::from_millis(300));
    let said = hosts.run("explain eth0 --save --for 2s");
    assert!(
        said.contains("the picture of ordinary traffic has"),
        "{said}"
    );
    let first = fs::metadata(&saved.0).unwrap();
    assert_eq!(first.mode() & 0o777, 0o600);
    assert_eq!(first.uid(), 0);
    let folder = fs::metadata(saved.0.parent().unwrap()).unwrap();
    assert_eq!(folder.mode() & 0o777, 0o700);
    // More traffic makes the picture better, within its bounds.
    hosts.run("explain eth0 --save --for 2s");
    traffic.end();
    let text = fs::read_to_string(&saved.0).unwrap();
    let picture: serde_json::Value = serde_json::from_str(&text).unwrap();
    let picture = &picture["picture"];
    assert!(picture["seconds"].as_f64().unwrap() >= 4.0);
    let shapes = picture["shapes"].as_array().unwrap();
    assert!((500..=16_384).contains(&shapes.len()), "{}", shapes.len());
    // The network of the sources is 198.51.0.0/16: no number has more of their addresses.
    let network = (1_u64 << 40) | 0xc633;
    for shape in shapes {
        let numbers = shape.as_array().unwrap();
        assert!(numbers.contains(&network.into()), "{shape}");
    }
}

#[test]
fn picture_is_not_learned_while_a_limit_refuses_packets() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let saved = Saved::of(&hosts);
    let flood = Flood::start(
        &hosts,
        vec![udp(&hosts, CLIENT, 9)],
        Duration::from_millis(5),
    );
    let refused = hosts.limiter("explain eth0 --save --for 1s");
    flood.end();
    refused.expect(5);
    assert!(refused.stderr.contains("limits refused"), "{refused:?}");
    assert!(!saved.0.exists());
}

#[test]
fn damaged_picture_is_refused_with_the_way_out() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1M/s");
    let saved = Saved::of(&hosts);
    fs::create_dir_all(saved.0.parent().unwrap()).unwrap();
    for text in ["", "{}", "{\"interface\": \"eth1\", \"picture\": {}}"] {
        fs::write(&saved.0, text).unwrap();
        let words = ["cannot be used: remove it", "--save"];
        hosts
            .limiter("explain eth0 --for 1s")
            .expect_error(1, &words);
        hosts
            .limiter("explain eth0 --save --for 1s")
            .expect_error(1, &words);
    }
    assert_eq!(Traffic::new(&hosts).passed("192.0.2.9", 3), 3);
}

#[test]
fn captures_are_explained_without_an_interface() {
    let (folder, mut rng) = (Folder::new(), Rng::with_seed(21));
    let mut write = |name: &str, attack: usize| {
        let mut packets = Ordinary::Web.packets(&mut rng, 4_000, false);
        packets.extend((0..attack).map(|_| Attack::NtpReflection.packet(&mut rng)));
        folder.write(name, pcap(&capture(&packets, 8)))
    };
    let (ordinary, flood) = (write("ordinary.pcap", 0), write("flood.pcap", 6_000));
    let explained = of_captures(&["--capture", &flood, "--ordinary", &ordinary]);
    let pattern = &explained["patterns"][0];
    assert!(
        pattern["match"]
            .as_str()
            .unwrap()
            .contains("source_port = 123"),
        "{explained:#}"
    );
    assert_eq!(explained["interface"], serde_json::Value::Null);
    let text = limiter(&["explain", "--capture", &flood, "--ordinary", &ordinary]);
    text.expect(0);
    println!("{}", text.stdout);
    for words in [
        "Pattern: matches",
        "of what is above the ordinary rate",
        "[[limit]]\nname = \"flood\"",
        "limiter limit IFACE flood --match '{ ",
        "--try 10m",
    ] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
    let alone = of_captures(&["--capture", &flood]);
    assert_eq!(alone["answer"], "no-picture");
    limiter("explain").expect_error(2, &["IFACE"]);
    limiter("explain --capture /nonexistent").expect_error(1, &["cannot be read"]);
}

#[test]
fn countries_and_systems_of_the_sources_are_shown_if_a_database_knows_them() {
    let (folder, mut rng) = (Folder::new(), Rng::with_seed(23));
    let mut write = |name: &str, attack: usize| {
        let mut packets = Ordinary::Dns.packets(&mut rng, 2_000, false);
        packets.extend((0..attack).map(|_| Attack::FewSources.packet(&mut rng)));
        folder.write(name, pcap(&capture(&packets, 8)))
    };
    let (ordinary, flood) = (write("ordinary.pcap", 0), write("flood.pcap", 4_000));
    let record = map(&[
        entry("country", &map(&[entry("iso_code", &text("DE"))])),
        entry("autonomous_system_number", &database::number(64_500)),
    ]);
    let mut tree = Tree::default().with_other(record);
    // The senders are in 203.0.0.0/14, which a database of both families has below ::/96.
    tree.lead(0xcb00_0000, 96 + 14, Branch::Other);
    let database = folder.write("places.mmdb", tree.bytes());
    let captures = ["--capture", &flood, "--ordinary", &ordinary];
    let explained_by =
        |database: &str| of_captures(&[&captures[..], &["--database", database]].concat());
    let explained = explained_by(&database);
    let shares = explained["shares"].as_array().unwrap();
    for (field, value) in [("country", "DE"), ("asn", "AS64500")] {
        let mut shares = shares.iter();
        let share = shares.find(|share| share["field"] == field && share["value"] == value);
        let share = share.unwrap_or_else(|| panic!("{explained:#}"));
        assert!(share["now"].as_f64().unwrap() > 0.6, "{share}");
    }
    let matches = explained["patterns"][0]["match"].as_str().unwrap();
    assert!(!matches.contains("DE"), "{matches}");
    let plain = of_captures(&captures);
    assert_eq!(plain["patterns"][0]["match"], matches, "{plain:#}");
    assert!(!plain.to_string().contains("\"country\""), "{plain:#}");
    let words = [&["explain"], &captures[..], &["--database", &ordinary]].concat();
    limiter(&words).expect_error(1, &["not a database", ".mmdb"]);
}
