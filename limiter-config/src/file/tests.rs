//! Tests of reading files. The messages about mistakes are in [`messages`].

mod messages;

use std::{fs, path::Path};

use super::{
    super::{Limit, Scope, Settings, lists::prefix},
    File, parse, show,
};

/// The shortest possible limit.
const LIMIT: &str = "[[limit]]\nname = \"a\"\nrate = \"5/s\"\n";

fn read(text: &str) -> File {
    let read = parse(text, Path::new("."));
    read.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"))
}

#[test]
fn limits_on_control_traffic_are_read_and_shown() {
    let with_control = |control: &str| read(&format!("exempt = [\"control\"]\n{control}{LIMIT}"));
    let default = with_control("");
    assert_eq!(default, with_control("[control]\n"));
    assert!(!show(&[], &default.settings).contains("[control]"));
    for (lines, expected) in [
        ("", "100/s 200, 10k/s 10000"),
        (
            "rate = \"30/m\"\nburst = 7\ntotal = \"1k/s\"\n",
            "30/m 7, 1k/s 1000",
        ),
        ("rate = \"1/d\"\ntotal = \"none\"\n", "1/d 1"),
        ("rate = \"5/s\"\ntotal = \"none\"\n", "5/s 10"),
    ] {
        let file = with_control(&format!("[control]\n{lines}"));
        let rate_and_burst =
            |limit: &Limit| format!("{} {}", limit.rate, limit.burst(1_522).unwrap().tokens);
        let limits = file.settings.control.limits(file.settings.exempt);
        let limits: Vec<_> = limits.iter().map(rate_and_burst).collect();
        assert_eq!(limits.join(", "), expected);
        let shown = show(&[], &file.settings);
        assert!(
            lines.is_empty() || shown.contains(&format!("\n[control]\n{lines}")),
            "{shown}"
        );
        assert_eq!(read(&shown), file);
    }
}

#[test]
fn fleet_scope_of_limits_and_lists_is_read_and_shown() {
    let file = read(
        "fleet = \"edge\"\n[lists]\nallow = { scope = \"fleet\" }\ndeny = { scope = \"fleet\", prefixes = [\"192.0.2.7\"] }\n\
         gold = { scope = \"host\", prefixes = [\"192.0.2.8\"] }\n[[limit]]\nname = \"a\"\nrate = \"5/s\"\nscope = \"fleet\"\n",
    );
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
    assert_eq!(limits[0].scope, Scope::Fleet);
    let shown = show(&file.interfaces, &file.settings);
    assert_eq!(read(&shown), file, "{shown}");
    // A fleet with only a deny list has an effect.
    read("fleet = \"edge\"\n[lists]\ndeny = { scope = \"fleet\" }\n");
}

#[test]
fn alternative_spellings_give_the_same_settings() {
    let limit = "[[limit]]\nname = \"b\"\nrate = 5";
    for (spelling, other) in [
        (
            "",
            "mode = \"auto\"\nmax_sources = \"65536\"\nnew_sources = \"10k/s\"",
        ),
        ("max_sources = \"64k\"", "max_sources = 64_000"),
        (
            "[lists]\ndeny = [\"192.0.2.7\"]",
            "[lists]\ndeny = { prefixes = [\"192.0.2.7\"] }",
        ),
        ("interfaces = \"eth0\"", "interfaces = [\"eth0\"]"),
        (
            "interfaces = \"eth0, eth1\"",
            "interfaces = [\"eth0\", \"eth1\"]",
        ),
        (
            "exempt = \"established,control\"",
            "exempt = [\"established\", \"control\"]",
        ),
        (
            &format!("{limit}\nmatch = {{ protocol = \"TCP\", destination_port = \"80,https\" }}"),
            &format!("{limit}\nmatch = {{ protocol = \"tcp\", destination_port = [80, 443] }}"),
        ),
        ("new_sources_burst = \"2k\"", "new_sources_burst = 2000"),
        (
            &format!("{limit}\n[limit.match]\nprotocol = 6"),
            &format!("{limit}\nmatch = {{ protocol = \"tcp\" }}"),
        ),
    ] {
        let [read, other] = [spelling, other].map(|text| read(&format!("{text}\n{LIMIT}")));
        assert_eq!(read, other, "{spelling}");
    }
}

#[test]
fn list_of_a_file_is_read_in_its_format_and_from_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "first,second\n192.0.2.1,198.51.100.1\n192.0.2.2,198.51.100.2\n";
    fs::write(folder.path().join("list.csv"), rows).unwrap();
    let parsed = |keys: &str| {
        let text = format!("{LIMIT}[lists]\ndeny = {{ file = \"list.csv\", {keys} }}");
        parse(&text, folder.path())
    };
    for keys in [
        "format = \"table\", field = \"second\"",
        "format = \"auto\", field = [\"second\"]",
    ] {
        let lists = parsed(keys).unwrap().settings.lists;
        let second = ["198.51.100.1", "198.51.100.2"].map(|net| prefix(net).unwrap());
        assert_eq!(lists.deny, second.into(), "{keys}");
    }
    let mistakes = parsed("format = \"plain\"").expect_err("it is a table");
    assert!(mistakes[0].to_string().starts_with("line 5: deny: "));
}

#[test]
fn list_is_read_from_a_file_and_its_first_bad_lines_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let parsed = |list: &str| {
        fs::write(folder.path().join("list"), list).unwrap();
        let text = format!("{LIMIT}[lists]\ndeny = {{ file = \"list\" }}");
        parse(&text, folder.path())
    };
    let lists = parsed("192.0.2.0/24 # lab\n").unwrap().settings.lists;
    assert_eq!(lists.deny, [prefix("192.0.2.0/24").unwrap()].into());
    for (lines, told) in [(5, 5), (6, 6), (9, 6)] {
        let mistakes = parsed(&"x\n".repeat(lines)).expect_err("it is no prefix");
        assert_eq!(mistakes.len(), told, "{mistakes:?}");
        let first = mistakes[0].to_string();
        assert!(first.starts_with("line 5: deny: "), "{first}");
        assert!(
            first.contains("/list line 1: 'x': not an address"),
            "{first}"
        );
        let last = mistakes[told - 1].to_string();
        let more = format!("and {} more: correct them too", lines - 5);
        assert_eq!(last.ends_with(&more), lines > 5, "{last}");
    }
}
