//! `allow`, `deny` and `tier` edit the lists of a running limiter completely or not at all, and packets follow the
//! lists.

use std::{fs, path::Path, time::Duration};

use limiter_config::places::{System, prefixes};
use limiter_tests::{
    command::limiter,
    database::{self, Branch, Tree, entry, long, map, small, text},
    eventually,
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts},
    need_kernel, number,
    traffic::{Flood, Traffic},
};
use serde_json::{Value, json};

/// Limits with small bursts, and two tiers.
const TIERS: &str = r#"
[lists]
own = ["192.0.2.0/24"]
others = []

[[limit]]
name = "own"
match = { source = "own" }
rate = "1/h"
burst = 5

[[limit]]
name = "strangers"
match = { unless = ["own", "others"] }
rate = "1/h"
burst = 1
"#;

fn attached() -> Hosts {
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    hosts
}

fn attached_with_tiers() -> Hosts {
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = folder.write("limiter.toml", at_driver(TIERS));
    hosts
        .limiter(&["attach", "eth0", "--config", &file])
        .expect(0);
    hosts
}

/// Runs an edit of a list, such as `allow add eth0 10.0.0.0/8`. Returns the output.
fn edit(hosts: &Hosts, list: &str, edit: &str, prefixes: &[&str]) -> String {
    let start: Vec<&str> = match list {
        "allow" | "deny" => vec![list, edit, "eth0"],
        tier => vec!["tier", edit, "eth0", tier],
    };
    let outcome = hosts.limiter(&[&start[..], prefixes].concat());
    outcome.expect(0);
    outcome.stdout
}

fn listed(hosts: &Hosts, list: &str) -> Vec<String> {
    edit(hosts, list, "list", &[])
        .lines()
        .map(str::to_owned)
        .collect()
}

fn of_status(hosts: &Hosts, name: &str) -> Value {
    let status = hosts.status();
    let lists = status["lists"].as_array().unwrap();
    lists
        .iter()
        .find(|list| list["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {status}"))
        .clone()
}

#[test]
fn every_list_is_edited_and_printed() {
    need_kernel!();
    let (hosts, folder) = (attached_with_tiers(), Folder::new());
    let file = folder.write(
        "windows",
        "\u{feff}203.0.113.66\r\n# blocked\r\n\r\n2001:db8::/32\r\n",
    );
    for list in ["allow", "deny", "others"] {
        let in_order = ["198.51.100.0/24", "203.0.113.66", "2001:db8::/32"];
        for (verb, prefixes, says, wanted) in [
            (
                "add",
                &["198.51.100.0/24", "--file", &file][..],
                "3 added, 0 removed",
                &in_order[..],
            ),
            ("add", &["203.0.113.66/32"], "unchanged", &in_order),
            (
                "remove",
                &["203.0.113.66", "2001:db8::/32"],
                "0 added, 2 removed",
                &in_order[..1],
            ),
            (
                "replace",
                &["--file", &file],
                "2 added, 1 removed",
                &in_order[1..],
            ),
            ("remove", &["--file", &file], "0 added, 2 removed", &[]),
            (
                "replace",
                &["192.0.2.7"],
                "1 added, 0 removed",
                &["192.0.2.7"],
            ),
            ("clear", &[], "0 added, 1 removed", &[]),
            ("flush", &[], "unchanged", &[]),
        ] {
            let text = edit(&hosts, list, verb, prefixes);
            assert!(text.contains(says), "{list}, {verb}: {text}");
            assert_eq!(listed(&hosts, list), wanted, "{list}, {verb}");
            let start: &[&str] = match list {
                "others" => &["tier", "list", "eth0", "others", "--json"],
                list => &[list, "list", "eth0", "--json"],
            };
            let shown = json!({"interface": "eth0", "list": list, "prefixes": wanted, "fleet": null, "warnings": []});
            assert_eq!(hosts.json(start), shown);
            assert_eq!(
                number(&of_status(&hosts, list)["prefixes"]),
                wanted.len() as u64
            );
        }
    }
    assert_eq!(listed(&hosts, "own"), ["192.0.2.0/24"]);
}

/// An error is reported with its line.
#[test]
fn list_edit_is_applied_whole_or_not_at_all() {
    need_kernel!();
    let (hosts, folder) = (attached(), Folder::new());
    edit(&hosts, "allow", "add", &["192.0.2.1", "192.0.2.2"]);
    let before = hosts.status();
    let good: String = (0..500)
        .map(|i| format!("10.0.{}.{}\n", i / 256, i % 256))
        .collect();
    let one_bad = folder.write("bad", format!("{good}10.0.0.7/24\n"));
    let colours = folder.write("colours", "\u{1b}[31mred\n");
    for verb in ["add", "remove", "replace"] {
        let edit =
            |arguments: &[&str]| hosts.limiter(&[&["allow", verb, "eth0"], arguments].concat());
        edit(&["192.0.2.9", "192.0.2.7/24"]).expect_error(
            2,
            &["192.0.2.7/24", "192.0.2.0/24", "192.0.2.7 for the one"],
        );
        edit(&["--file", &one_bad])
            .expect_error(1, &["bad line 501", "10.0.0.0/24", "nothing was changed"]);
        let refused = edit(&["--file", &colours]);
        refused.expect_error(1, &["colours line 1"]);
        assert!(!refused.stderr.contains('\u{1b}'), "{refused:#?}");
        edit(&[]).expect_error(2, &["CIDR"]);
    }
    assert_eq!(listed(&hosts, "allow"), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(hosts.status(), before, "the same program runs");
}

/// The other prefixes are removed.
#[test]
fn remove_names_prefixes_that_are_not_on_the_list() {
    need_kernel!();
    let hosts = attached();
    edit(&hosts, "deny", "add", &["192.0.2.1", "192.0.2.2"]);
    let remove = "deny remove eth0 192.0.2.1 192.0.2.8 192.0.2.9";
    let removed = hosts.limiter(remove);
    removed.expect(0);
    assert_eq!(removed.stdout, "eth0: deny: 0 added, 1 removed\n");
    let missing = "limiter: 192.0.2.8 and 1 more is not on deny\n";
    assert_eq!(removed.stderr, missing);
    let strict = "deny remove eth0 192.0.2.2 192.0.2.9 --strict";
    hosts.limiter(strict).expect(1);
    assert_eq!(listed(&hosts, "deny"), [""; 0]);
}

#[test]
fn edit_of_an_unknown_list_is_refused() {
    need_kernel!();
    let hosts = attached_with_tiers();
    for (command, status, words) in [
        (
            "tier add eth0 owm 192.0.2.1",
            1,
            ["no list 'owm'", "others, own"],
        ),
        (
            "tier replace eth0 owm 192.0.2.1",
            1,
            ["no list 'owm'", "others, own"],
        ),
        ("tier list eth0 owm", 1, ["no list 'owm'", "others, own"]),
        ("tier add eth0 deny 192.0.2.1", 2, ["limiter deny", "tier"]),
        ("deny add lo 192.0.2.1", 1, ["not attached", "'lo'"]),
        ("tier list lo own", 1, ["not attached", "'lo'"]),
    ] {
        hosts.limiter(command).expect_error(status, &words);
    }
}

/// Among tiers, the longest prefix decides. `allow` and `deny` come first.
#[test]
fn tiers_decide_which_limit_applies_to_a_source() {
    need_kernel!();
    let hosts = attached_with_tiers();
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.7", 9), 5, "own");
    assert_eq!(traffic.passed("198.51.100.7", 9), 1, "a stranger");
    edit(
        &hosts,
        "others",
        "add",
        &["192.0.2.128/25", "198.51.100.0/24"],
    );
    assert_eq!(traffic.passed("198.51.100.7", 9), 9, "no limit");
    assert_eq!(traffic.passed("192.0.2.200", 9), 9, "the longer prefix");
    assert_eq!(traffic.passed("192.0.2.9", 9), 5, "the shorter prefix");
    edit(&hosts, "own", "add", &["192.0.2.128/25"]);
    assert_eq!(traffic.passed("192.0.2.201", 9), 5, "on both");
    edit(&hosts, "deny", "add", &["192.0.2.201"]);
    assert_eq!(traffic.passed("192.0.2.201", 9), 0);
    let check = hosts.json("check eth0 192.0.2.201 --json");
    assert_eq!(check["listed"], "deny");
    assert_eq!(check["tiers"], json!(["others", "own"]));
}

/// A source on both the old and the new list is on a list all the time.
#[test]
fn countries_and_autonomous_systems_are_lists() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let databases = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/places");
    let copy = |from: &str, destination: &str| {
        folder.write(destination, fs::read(databases.join(from)).unwrap());
    };
    copy("country.mmdb", "country.mmdb");
    copy("asn.mmdb", "asn.mmdb");
    let text = |country: &str| {
        format!(
            "[lists]\ndeny = {{ geoip = [\"{country}\"], database = \"country.mmdb\" }}\n\
             allow = {{ asn = 64500, database = \"asn.mmdb\" }}\n\
             [[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 1\n"
        )
    };
    let file = folder.write("limiter.toml", at_driver(text("CN")));
    hosts
        .limiter(&["attach", "eth0", "--config", &file])
        .expect(0);
    let traffic = Traffic::new(&hosts);
    let passed = |expected: [u64; 5]| {
        let sources = [
            "192.0.2.7",
            "2001:db8::7",
            "198.51.100.7",
            "203.0.113.7",
            "2001:db8:1::7",
        ];
        // A longer prefix on allow takes precedence over a shorter one on deny.
        assert_eq!(sources.map(|source| traffic.passed(source, 3)), expected);
    };
    passed([0, 0, 1, 3, 3]);
    folder.write("limiter.toml", at_driver(text("FR")));
    hosts.run("reload eth0");
    passed([1, 1, 0, 3, 3]);
    // A broken database changes nothing.
    folder.write("country.mmdb", "");
    let outcome = hosts.limiter("reload eth0");
    outcome.expect(1);
    assert!(outcome.stderr.contains("is not a database"), "{outcome:#?}");
    passed([0, 0, 0, 3, 3]);
}

/// The file, with `tree` as its database of countries.
fn with_countries(folder: &Folder, tree: &Tree) -> String {
    folder.write("country.mmdb", tree.bytes());
    folder.write(
        "limiter.toml",
        "[lists]\ndeny = { geoip = [\"CN\"], database = \"country.mmdb\" }\n\
         [[limit]]\nname = \"one\"\nrate = \"1/h\"\n",
    )
}

/// With 100 levels instead of 20, no reader would come to an end.
#[test]
fn database_whose_nodes_share_branches_is_refused() {
    let folder = Folder::new();
    let file = with_countries(&folder, &Tree::shared(20));
    let outcome = limiter(&["config", "check", &file]);
    outcome.expect(1);
    for words in ["country.mmdb", "its 20 nodes share branches"] {
        assert!(outcome.stderr.contains(words), "{words}: {outcome:#?}");
    }
}

/// A record of each shape that publishers use, beside one of MaxMind's.
#[test]
fn countries_and_systems_are_found_in_records_of_every_shape() {
    let field = |key: &str, value: &[u8]| map(&[entry(key, value)]);
    let code = text("de");
    let (name, number_64500) = (text("Germany"), database::number(64_500));
    let country = |record| ("DE", None, record);
    let system = |record| ("CN", Some("64500"), record);
    for (country, system, record) in [
        country(field("country_code", &code)),
        country(field("country", &text("DE"))),
        country(map(&[
            entry("country", &name),
            entry("country_code", &code),
        ])),
        country(field("registered_country", &field("iso_code", &code))),
        country(map(&[
            entry("country", &field("iso_code", &code)),
            entry("registered_country", &field("iso_code", &text("FR"))),
        ])),
        country(field("geo", &field("country_code", &code))),
        country(code.clone()),
        system(field("autonomous_system_number", &number_64500)),
        system(field("autonomous_system_number", &text("64500"))),
        system(field(
            "traits",
            &field("autonomous_system_number", &number_64500),
        )),
        system(field("asn", &text("AS64500"))),
        system(field("asn", &text("AS64500 Example"))),
        system(field("asn", &long(9, &[0xfb, 0xf4]))),
        system(field("asn", &long(10, &[0, 0, 0, 0, 0xfb, 0xf4]))),
        system(field("asn", &long(8, &[0, 0, 0xfb, 0xf4]))),
        system(field("as", &field("asn", &text("AS64500")))),
        system(field(
            "country",
            &field("AutonomousSystemNumber", &text("64500")),
        )),
    ] {
        let mut tree = Tree::default().with_other(record);
        tree.lead(0xc000_0200, 120, Branch::China);
        tree.lead(0xc633_6400, 120, Branch::Other);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), tree.bytes()).unwrap();
        let countries = [country.parse().unwrap()];
        let systems: Vec<System> = system
            .iter()
            .map(|number| number.parse().unwrap())
            .collect();
        let found = prefixes(file.path(), &countries, &systems).unwrap();
        let expected: &[&str] = match system {
            Some(_) => &["192.0.2.0/24", "198.51.100.0/24"],
            None => &["198.51.100.0/24"],
        };
        let found: Vec<_> = found.iter().map(|prefix| prefix.to_string()).collect();
        assert_eq!(
            found,
            expected,
            "{country} {system:?} {:02x?}",
            tree.bytes()
        );
    }
}

/// A city database has a prefix for each city, and sometimes one within another.
#[test]
fn prefixes_of_a_country_are_the_fewest() {
    let city = map(&[
        entry("country", &map(&[entry("iso_code", &text("CN"))])),
        entry("city", &text("Beijing")),
    ]);
    let mut tree = Tree::default().with_other(city);
    for network in 0..256_u128 {
        let branch = [Branch::China, Branch::Other][network as usize % 2];
        tree.lead(0xc633_0000 | network << 8, 120, branch);
        tree.lead(0x2001_0db8 << 96 | network << 80, 48, branch);
    }
    tree.lead(0xc000_0200, 120, Branch::Other);
    let folder = Folder::new();
    let file = with_countries(&folder, &tree);
    let check = limiter(&["config", "check", &file]);
    check.expect(0);
    assert!(check.stdout.contains(", 3 prefixes on lists"), "{check:#?}");
}

#[test]
fn message_about_a_database_says_what_is_wrong_with_it() {
    let (folder, mut tree) = (Folder::new(), Tree::default());
    tree.lead(0xc000_0200, 120, Branch::Other);
    let database = |record: Vec<u8>| tree.clone().with_other(record).bytes();
    let cases = [
        (vec![0x1f, 0x8b, 8], "is packed by gzip: unpack it"),
        (b"x".to_vec(), "is not a database of MaxMind's format"),
        (database(vec![0xff; 9]), "is damaged"),
        (
            database(map(&[entry("is_anonymous", &small(1))])),
            "no codes of countries that limiter finds; it is of the type 'Test-Country', and its first record has is_anonymous",
        ),
        (
            database(map(&[entry("country_code", &text("FR"))])),
            "no prefixes of CN",
        ),
    ];
    for (bytes, says) in cases {
        let file = with_countries(&folder, &tree);
        folder.write("country.mmdb", bytes);
        let check = limiter(&["config", "check", &file]);
        check.expect(1);
        assert!(check.stderr.contains(says), "{says}: {check:#?}");
    }
}

/// Databases of both families lead to the networks of IPv4 from several prefixes of IPv6.
#[test]
fn database_with_aliases_of_ipv4_is_read() {
    let (folder, mut tree) = (Folder::new(), Tree::default());
    for network in 0..1_000_u128 {
        // Adjacent ones would be merged.
        tree.lead(network << 13, 116, Branch::China);
    }
    let ipv4 = tree.lead(0, 96, Branch::Nothing);
    assert!(matches!(ipv4, Branch::Node(_)));
    tree.lead(0, 96, ipv4);
    for (prefix, bits) in [
        (0xffff << 32, 96),
        (0x2002 << 112, 16),
        (0x2001 << 112, 32),
        (0x64_ff9b << 96, 96),
    ] {
        tree.lead(prefix, bits, ipv4);
    }
    let file = with_countries(&folder, &tree);
    let outcome = limiter(&["config", "check", &file]);
    outcome.expect(0);
    assert!(outcome.stdout.contains("1,000 prefixes"), "{outcome:#?}");
}

#[test]
fn long_list_is_replaced_under_flood_without_a_gap() {
    need_kernel!();
    const PREFIXES: u32 = 3_000;
    const DENIED: &str = "198.51.100.7";
    let (hosts, folder) = (attached(), Folder::new());
    let list = |network: u32, source: &str| {
        let others: String = (0..PREFIXES)
            .map(|i| format!("10.{network}.{}.{}\n", i / 256, i % 256))
            .collect();
        format!("{others}{source}\n")
    };
    let client = CLIENT.to_string();
    let allow = [1, 2].map(|i| folder.write(&format!("allow{i}"), list(i, &client)));
    let deny = [3, 4].map(|i| folder.write(&format!("deny{i}"), list(i, DENIED)));
    edit(&hosts, "allow", "replace", &["--file", &allow[0]]);
    edit(&hosts, "deny", "replace", &["--file", &deny[0]]);

    let frames = [CLIENT, DENIED.parse().unwrap()].map(|source| hosts.frame(source).bytes());
    let flood = Flood::start(&hosts, frames.to_vec(), Duration::ZERO);
    for round in 1..=8 {
        edit(&hosts, "allow", "replace", &["--file", &allow[round % 2]]);
        edit(&hosts, "deny", "replace", &["--file", &deny[round % 2]]);
    }
    let sent = flood.end() / 2;
    eventually("limiter has counted all packets", || {
        hosts.status()["seen"]["packets"] == 2 * sent
    });
    let status = hosts.status();
    assert!(sent > 1_000, "too few packets were sent: {sent}");
    assert_eq!(status["passes"]["allowed"]["packets"], sent, "{status}");
    assert_eq!(status["drops"]["deny"]["packets"], sent, "{status}");
    assert_eq!(listed(&hosts, "deny").len(), PREFIXES as usize + 1);
}

/// Packets of such a prefix still do not pass.
#[test]
fn allow_notes_a_prefix_that_is_denied_too() {
    need_kernel!();
    let hosts = attached();
    let hint = |arguments: &[&str]| {
        let outcome = hosts.limiter(arguments);
        outcome.expect(0);
        outcome.stderr
    };
    assert_eq!(hint(&["deny", "add", "eth0", "203.0.113.0/24"]), "");
    assert_eq!(hint(&["allow", "add", "eth0", "203.0.113.7"]), "", "longer");
    let note = hint(&["allow", "add", "eth0", "203.0.113.0/24", "192.0.2.9"]);
    assert!(
        note.contains("203.0.113.0/24 is on deny too, and deny takes precedence"),
        "{note}"
    );
    assert_eq!(hint(&["allow", "remove", "eth0", "203.0.113.0/24"]), "");
}
