//! `limiter set` and `limiter reload` report each change in the documented words.

use std::path::Path;

use limiter_config::{Settings, difference::difference, file};

const FRAME_MAX: u64 = 1_522;
const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\nburst = 10\n";

fn settings(text: &str) -> Settings {
    let file = file::parse(text, Path::new("."));
    file.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .settings
}

/// Checks the reported differences in both directions. A ` | ` separates the lines of a report.
fn expect(old: &str, new: &str, [there, back]: [&str; 2]) {
    let (old, new) = (settings(old), settings(new));
    let difference = |old, new| difference(old, new, FRAME_MAX).join(" | ");
    assert_eq!(difference(&old, &new), there);
    assert_eq!(difference(&new, &old), back);
    assert_eq!(difference(&old, &old), "");
    assert_eq!(difference(&new, &new), "");
}

/// Cases of a table: the changed text with `\n` between its lines, the reported difference, and the difference back.
fn cases(table: &str) -> impl Iterator<Item = (String, [&str; 2])> {
    let cases = table.lines().filter(|line| !line.is_empty());
    cases.map(|line| {
        let parts: Vec<_> = line.split("=> ").map(str::trim).collect();
        let [new, there, back] = parts.try_into().expect("three parts");
        (new.replace("\\n", "\n"), [there, back])
    })
}

fn two() -> String {
    format!("{ONE}{}", ONE.replace("one", "two"))
}

#[test]
fn changed_global_settings_are_reported() {
    for (line, reports) in cases(
        r#"
new_sources = "none" => limit new sources gone => limit new sources new: 10k/s
new_sources_burst = 7 => new sources: burst 65536 -> 7 => new sources: burst 7 -> 65536
exempt = ["established", "control"] => exempt nothing -> established,control => exempt established,control -> nothing
shadow = true => shadow off -> on => shadow on -> off
malformed = "pass" => malformed drop -> pass => malformed pass -> drop
"#,
    ) {
        expect(ONE, &format!("{line}\n{ONE}"), reports);
    }
}

#[test]
fn changed_control_traffic_limits_are_reported() {
    let text_with = |control: &str| format!("exempt = [\"control\"]\n[control]\n{control}\n{ONE}");
    for (line, reports) in cases(
        r#"
rate = "50/s"\nburst = 200 => control: rate 100/s -> 50/s => control: rate 50/s -> 100/s
burst = 300 => control: burst 200 -> 300 => control: burst 300 -> 200
total = "20k/s" => control-total: rate 10k/s -> 20k/s | control-total: burst 10k by the rate -> 20k by the rate => control-total: rate 20k/s -> 10k/s | control-total: burst 20k by the rate -> 10k by the rate
total = "none" => limit control-total gone => limit control-total new: 10k/s
"#,
    ) {
        expect(&text_with(""), &text_with(&line), reports);
    }
}

#[test]
fn changed_settings_of_a_limit_are_reported() {
    for (new, [there, back]) in cases(
        r#"
burst = 11\n => burst 10 -> 11 => burst 11 -> 10
 => burst 10 -> 5 by the rate => burst 5 by the rate -> 10
burst = 10\ncost = 2\n => cost by unit -> 2 => cost 2 -> by unit
burst = 10\nshadow = true\n => shadow off -> on => shadow on -> off
burst = 10\nalgorithm = "fixed-window"\n => algorithm token-bucket -> fixed-window => algorithm fixed-window -> token-bucket
burst = 10\nkey = "/24,/48"\n => key /32,/64 -> /24,/48, with new buckets => key /24,/48 -> /32,/64, with new buckets
burst = 10\nmatch = { protocol = "udp" }\n => match => match
"#,
    ) {
        let changed = ONE.replace("burst = 10\n", &new);
        expect(ONE, &changed, [there, back]);
        // With several limits, the name comes first.
        let [there, back] = [there, back].map(|report| format!("one: {report}"));
        let other = ONE.replace("one", "two");
        let (old, new) = (format!("{ONE}{other}"), format!("{changed}{other}"));
        expect(&old, &new, [&there, &back]);
    }
}

/// A configured burst stays at a new rate; a default burst follows the rate.
#[test]
fn changed_rate_is_reported_with_its_effect_on_the_burst() {
    for (change, reports) in cases(
        r#"
"5/s"\nburst = 10 -> "20/s"\nburst = 10 => rate 5/s -> 20/s => rate 20/s -> 5/s
"5/s"\nburst = 10 -> "300/m"\nburst = 10 => rate 5/s -> 300/m => rate 300/m -> 5/s
"5/s" -> "50/s" => rate 5/s -> 50/s | burst 5 by the rate -> 50 by the rate => rate 50/s -> 5/s | burst 50 by the rate -> 5 by the rate
"8kbit" -> "16mbit" => rate 8kbit -> 16mbit | burst 1522b by the rate -> 2000000b (about 1.9mb) by the rate => rate 16mbit -> 8kbit | burst 2000000b (about 1.9mb) by the rate -> 1522b by the rate
"6/m"\nburst = 10\nalgorithm = "fixed-window" -> "3/m"\nburst = 10\nalgorithm = "fixed-window" => rate 6/m -> 3/m => rate 3/m -> 6/m
"#,
    ) {
        let (old, new) = change.split_once(" -> ").expect("two rates");
        let text_with = |rate: &str| format!("[[limit]]\nname = \"one\"\nrate = {rate}\n");
        expect(&text_with(old), &text_with(new), reports);
    }
}

#[test]
fn added_removed_and_reordered_limits_are_reported() {
    expect(ONE, &two(), ["limit two new: 5/s", "limit two gone"]);
    let turned = format!("{}{ONE}", ONE.replace("one", "two"));
    expect(&two(), &turned, ["order of the limits"; 2]);
    // If settings change too, those are reported instead of the order.
    expect(
        &two(),
        &turned.replacen("burst = 10", "burst = 11", 1),
        ["two: burst 10 -> 11", "two: burst 11 -> 10"],
    );
}

#[test]
fn changed_lists_are_reported_by_count() {
    const DENY: &str = r#"deny = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]"#;
    let text_with = |lists: &str| format!("{ONE}[lists]\n{lists}\n");
    for (lists, reports) in cases(
        r#"
deny = ["192.0.2.1", "192.0.2.2", "192.0.2.4"] => deny: 1 added, 1 removed => deny: 1 added, 1 removed
deny = ["192.0.2.1", "192.0.2.4"] => deny: 1 added, 2 removed => deny: 2 added, 1 removed
deny = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]\nallow = ["192.0.2.9"]\ntier = ["192.0.2.8", "2001:db8::/32"] => allow: 1 added, 0 removed | tier: 2 added, 0 removed => allow: 0 added, 1 removed | tier: 0 added, 2 removed
"#,
    ) {
        expect(&text_with(DENY), &text_with(&lists), reports);
    }
}

/// Settings that apply to all limits come first.
#[test]
fn all_changes_are_reported_in_file_order() {
    let two = two().replacen("burst = 10", "burst = 11", 1);
    expect(
        ONE,
        &format!("shadow = true\n{two}[lists]\ndeny = [\"192.0.2.1\"]\n"),
        [
            "shadow off -> on | one: burst 10 -> 11 | limit two new: 5/s | deny: 1 added, 0 removed",
            "shadow on -> off | limit two gone | burst 11 -> 10 | deny: 0 added, 1 removed",
        ],
    );
}

#[test]
fn changed_fleet_scopes_are_reported() {
    let lists = "[lists]\ndeny = { scope = \"fleet\" }\n";
    expect(
        &format!("{ONE}[lists]\ndeny = []\n"),
        &format!("fleet = \"edge\"\n{ONE}scope = \"fleet\"\n{lists}"),
        [
            "fleet none -> edge | scope host -> fleet | deny: scope host -> fleet",
            "fleet edge -> none | scope fleet -> host | deny: scope fleet -> host",
        ],
    );
}
