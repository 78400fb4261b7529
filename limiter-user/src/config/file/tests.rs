//! Tests of reading files. The messages about mistakes are in [`messages`].

mod messages;

use std::{fs, path::Path};

use super::{
    super::{
        Burst, Exempt, Limit, Lists, Match, NewSources, Scope, Settings, Unit,
        lists::prefix,
        matches::{PortRange, Ports, Protocol},
    },
    File, parse, show,
};

const EXAMPLE: &str = r#"
interfaces = ["eth0"]
mode = "auto"
max_sources = 65536
new_sources = "10k/s"
exempt = ["established", "control"]

[lists]
allow = ["198.51.100.0/24", "2001:db8::/32"]
deny  = ["203.0.113.66"]
partners = ["192.0.2.0/24"]            # a tier: a list that a limit matches on

[[limit]]
name = "ssh"
match = { protocol = "tcp", destination_port = 22, tcp_flags = "syn" }
rate = "5/m"
burst = 5

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = [53, "5300-5353"] }
key = "/32,/64"
rate = "20/s"
burst = 40

[[limit]]
name = "subnet"
key = "/24,/48"
rate = "20k/s"
burst = "40k"
shadow = true

[[limit]]
name = "partners"
match = { source = "partners" }
rate = "100mbit"
burst = "1mb"
"#;

/// The shortest possible limit.
const LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"5/s\"\n";

fn limit(name: &str, rate: &str, (tokens, unit): (u64, Option<Unit>)) -> Limit {
    Limit {
        burst: Some(Burst { tokens, unit }),
        ..Limit::new(name, rate.parse().unwrap())
    }
}

fn ports(ranges: &[(u16, u16)]) -> Ports {
    Ports(
        ranges
            .iter()
            .map(|&(first, last)| PortRange { first, last })
            .collect(),
    )
}

fn example_limits() -> Vec<Limit> {
    let ssh = Match {
        protocol: Some(Protocol::TCP),
        destination_port: ports(&[(22, 22)]),
        tcp_flags: Some("syn".parse().unwrap()),
        ..Match::default()
    };
    let dns = Match {
        protocol: Some(Protocol(17)),
        destination_port: ports(&[(53, 53), (5_300, 5_353)]),
        ..Match::default()
    };
    let partners = Match {
        source: vec!["partners".to_owned()],
        ..Match::default()
    };
    vec![
        Limit {
            matches: ssh,
            ..limit("ssh", "5/m", (5, None))
        },
        Limit {
            matches: dns,
            ..limit("dns", "20/s", (40, None))
        },
        Limit {
            key: "/24,/48".parse().unwrap(),
            shadow: true,
            ..limit("subnet", "20k/s", (40_000, Some(Unit::Packets)))
        },
        Limit {
            matches: partners,
            ..limit("partners", "100mbit", (1 << 20, Some(Unit::Bytes)))
        },
    ]
}

#[test]
fn example_file_parses_to_its_settings_and_reads_back() {
    let prefixes = |texts: &[&str]| texts.iter().map(|text| prefix(text).unwrap()).collect();
    let settings = Settings {
        exempt: Exempt {
            established: true,
            control: true,
        },
        new_sources: Some(NewSources::default()),
        lists: Lists {
            allow: prefixes(&["198.51.100.0/24", "2001:db8::/32"]),
            deny: prefixes(&["203.0.113.66"]),
            tiers: [("partners".to_owned(), prefixes(&["192.0.2.0/24"]))].into(),
        },
        limits: example_limits(),
        ..Settings::default()
    };
    let file = File {
        interfaces: vec!["eth0".to_owned()],
        settings,
    };
    assert_eq!(parse(EXAMPLE, Path::new(".")), Ok(file.clone()));
    let shown = show(&file.interfaces, &file.settings);
    assert_eq!(parse(&shown, Path::new(".")), Ok(file), "{shown}");
    assert!(
        shown.contains("\nburst = \"40k\"\n"),
        "not the written value: {shown}"
    );
}

#[test]
fn limits_on_control_traffic_are_read_and_shown() {
    let read = |text: &str| parse(text, Path::new(".")).unwrap();
    let with = |control: &str| format!("exempt = [\"control\"]\n{control}{LIMIT}");
    let default = read(&with(""));
    assert_eq!(default, read(&with("[control]\n")));
    let quota = |text: &str| -> Vec<_> {
        let limits = read(text).settings.control.limits();
        let one = |limit: &Limit| (limit.rate.to_string(), limit.burst(1_522).unwrap().tokens);
        limits.iter().map(one).collect()
    };
    let is = |rate: &str, burst| (rate.to_owned(), burst);
    assert_eq!(quota(&with("")), [is("100/s", 200), is("10k/s", 10_000)]);
    let written = "[control]\nrate = \"30/m\"\nburst = 7\ntotal = \"1k/s\"\n";
    assert_eq!(quota(&with(written)), [is("30/m", 7), is("1k/s", 1_000)]);
    for burst in [("30/m", 1), ("5/s", 10), ("1/d", 1)] {
        let text = with(&format!("[control]\nrate = \"{}\"\n", burst.0));
        assert_eq!(quota(&text)[0].1, burst.1, "{text}");
    }
    let without = "[control]\nrate = \"100/s\"\ntotal = \"none\"\n";
    assert_eq!(quota(&with(without)), [is("100/s", 200)]);
    for control in [written, without] {
        let file = read(&with(control));
        let shown = show(&[], &file.settings);
        assert!(shown.contains(&format!("\n{control}")), "{shown}");
        assert_eq!(read(&shown), file);
    }
    assert!(!show(&[], &default.settings).contains("[control]"));
}

#[test]
fn list_is_read_from_a_file_and_bad_lines_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good"), "192.0.2.0/24 # lab\n").unwrap();
    let good = parse("[lists]\nallow = { file = \"good\" }", folder.path()).unwrap();
    assert_eq!(
        good.settings.lists.allow,
        [prefix("192.0.2.0/24").unwrap()].into()
    );
}

#[test]
fn fleet_scope_of_limits_and_lists_is_read_and_shown() {
    let text = "fleet = \"edge\"\n[lists]\nallow = { scope = \"fleet\" }\ndeny = { scope = \"fleet\", prefixes = [\"192.0.2.7\"] }\n\
                gold = { scope = \"host\", prefixes = [\"192.0.2.8\"] }\n[[limit]]\nname = \"a\"\nrate = \"5/s\"\nscope = \"fleet\"\n\
                [[limit]]\nname = \"b\"\nrate = \"1mbit\"\nscope = \"host\"\n";
    let file = parse(text, Path::new(".")).unwrap();
    let Settings {
        fleet,
        fleet_lists,
        lists,
        limits,
        ..
    } = &file.settings;
    assert_eq!(fleet.as_deref(), Some("edge"));
    assert!(fleet_lists.iter().eq(["allow", "deny"]), "{fleet_lists:?}");
    assert_eq!(lists.deny, [prefix("192.0.2.7").unwrap()].into());
    assert_eq!(lists.tiers["gold"], [prefix("192.0.2.8").unwrap()].into());
    let scopes: Vec<_> = limits.iter().map(|limit| limit.scope).collect();
    assert_eq!(scopes, [Scope::Fleet, Scope::Host]);
    let shown = show(&file.interfaces, &file.settings);
    assert_eq!(parse(&shown, Path::new(".")), Ok(file), "{shown}");
    // A fleet with only a deny list has an effect.
    let alone = "fleet = \"edge\"\n[lists]\ndeny = { scope = \"fleet\" }\n";
    assert!(parse(alone, Path::new(".")).is_ok());
}

#[test]
fn alternative_spellings_give_the_same_settings() {
    let same = |one: &str, other: &str| {
        let read = |text: &str| {
            parse(&format!("{text}\n{LIMIT}"), Path::new("."))
                .unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"))
        };
        assert_eq!(read(one), read(other), "{one} and {other}");
    };
    same(
        "",
        "mode = \"auto\"\nmax_sources = \"65536\"\nnew_sources = \"10k/s\"",
    );
    same("max_sources = \"64k\"", "max_sources = 64_000");
    same(
        "[lists]\ndeny = [\"192.0.2.7\"]",
        "[lists]\ndeny = { prefixes = [\"192.0.2.7\"] }",
    );
    same("interfaces = \"eth0\"", "interfaces = [\"eth0\"]");
    same("new_sources_burst = \"2k\"", "new_sources_burst = 2000");
    let limit = |rest: &str| format!("[[limit]]\nname = \"b\"\nrate = 5\n{rest}");
    same(
        &limit("[limit.match]\nprotocol = 6"),
        &limit("match = { protocol = \"tcp\" }"),
    );
}
