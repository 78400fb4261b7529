//! `limiter set` and `limiter reload` report each change in the documented words.

use std::path::Path;

use limiter_user::config::{Settings, difference::difference, file};

const FRAME_MAX: u64 = 1_522;
const ONE: &str = "[[limit]]\nname = \"one\"\nrate = \"5/s\"\nburst = 10\n";

fn settings(text: &str) -> Settings {
    let file = file::parse(text, Path::new("."));
    file.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .settings
}

/// Checks the reported differences in both directions.
fn expect(old: &str, new: &str, there: &[&str], back: &[&str]) {
    let (old, new) = (settings(old), settings(new));
    let difference = |old, new| difference(old, new, FRAME_MAX);
    assert_eq!(difference(&old, &new), there);
    assert_eq!(difference(&new, &old), back);
    assert_eq!(difference(&old, &old), [""; 0]);
    assert_eq!(difference(&new, &new), [""; 0]);
}

/// Cases of a table: a change, the reported difference, and the difference back.
fn cases(table: &str) -> impl Iterator<Item = [&str; 3]> {
    let cases = table.lines().filter(|line| !line.is_empty());
    cases.map(|line| {
        let parts: Vec<_> = line.split("=> ").map(str::trim).collect();
        parts.try_into().expect("three parts")
    })
}

fn two() -> String {
    format!("{ONE}{}", ONE.replace("one", "two"))
}

#[test]
fn changed_global_settings_are_reported() {
    for [line, there, back] in cases(
        r#"
new_sources = "none" => new sources 10k/s burst 65536 -> none (looser) => new sources none -> 10k/s burst 65536 (tighter)
new_sources_burst = 7 => new sources: burst 65536 -> 7 (tighter) => new sources: burst 7 -> 65536 (looser)
exempt = ["established", "control"] => exempt nothing -> established,control => exempt established,control -> nothing
shadow = true => shadow off -> on => shadow on -> off
malformed = "pass" => malformed drop -> pass => malformed pass -> drop
"#,
    ) {
        expect(ONE, &format!("{line}\n{ONE}"), &[there], &[back]);
    }
}

#[test]
fn changed_control_traffic_limits_are_reported() {
    let with = |control: &str| format!("exempt = [\"control\"]\n[control]\n{control}\n{ONE}");
    for (line, there, back) in [
        (
            "rate = \"50/s\"\nburst = 200",
            &[
                "control: rate 100/s -> 50/s (tighter)",
                "control: burst stays 200: an empty bucket is full again after 4s",
            ][..],
            &[
                "control: rate 50/s -> 100/s (looser)",
                "control: burst stays 200: an empty bucket is full again after 2s",
            ][..],
        ),
        (
            "burst = 300",
            &["control: burst 200 -> 300 (looser)"],
            &["control: burst 300 -> 200 (tighter)"],
        ),
        (
            "total = \"20k/s\"",
            &[
                "control-total: rate 10k/s -> 20k/s (looser)",
                "control-total: burst 10k by the rate -> 20k by the rate (looser)",
            ],
            &[
                "control-total: rate 20k/s -> 10k/s (tighter)",
                "control-total: burst 20k by the rate -> 10k by the rate (tighter)",
            ],
        ),
        (
            "total = \"none\"",
            &["limit control-total gone"],
            &["limit control-total new: 10k/s"],
        ),
    ] {
        expect(&with(""), &with(line), there, back);
    }
}

#[test]
fn changed_settings_of_a_limit_are_reported() {
    for [new, there, back] in cases(
        r#"
burst = 11\n => burst 10 -> 11 (looser) => burst 11 -> 10 (tighter)
 => burst 10 -> 5 by the rate (tighter) => burst 5 by the rate -> 10 (looser)
burst = 10\ncost = 2\n => cost by unit -> 2 => cost 2 -> by unit
burst = 10\nshadow = true\n => shadow off -> on => shadow on -> off
burst = 10\nalgorithm = "fixed-window"\n => algorithm token-bucket -> fixed-window => algorithm fixed-window -> token-bucket
burst = 10\nkey = "/24,/48"\n => key /32,/64 -> /24,/48, with new buckets => key /24,/48 -> /32,/64, with new buckets
burst = 10\nmatch = { protocol = "udp" }\n => match => match
"#,
    ) {
        let changed = ONE.replace("burst = 10\n", &new.replace("\\n", "\n"));
        expect(ONE, &changed, &[there], &[back]);
        // With several limits, the name comes first.
        let (there, back) = (format!("one: {there}"), format!("one: {back}"));
        let other = ONE.replace("one", "two");
        let (old, new) = (format!("{ONE}{other}"), format!("{changed}{other}"));
        expect(&old, &new, &[there.as_str()], &[back.as_str()]);
    }
}

/// A configured burst stays at a new rate; a default burst follows the rate.
#[test]
fn changed_rate_is_reported_with_its_effect_on_the_burst() {
    let stays = |time: &str| format!("burst stays 10: an empty bucket is full again after {time}");
    for (new, there, back) in [
        (
            ONE.replace("5/s", "20/s"),
            ["rate 5/s -> 20/s (looser)".to_owned(), stays("500ms")],
            ["rate 20/s -> 5/s (tighter)".to_owned(), stays("2s")],
        ),
        (
            ONE.replace("5/s", "300/m"),
            ["rate 5/s -> 300/m".to_owned(), stays("2s")],
            ["rate 300/m -> 5/s".to_owned(), stays("2s")],
        ),
    ] {
        let (there, back) = (there.each_ref(), back.each_ref());
        expect(
            ONE,
            &new,
            &there.map(|line| &**line),
            &back.map(|line| &**line),
        );
    }
    let by_rate = ONE.replace("burst = 10\n", "");
    expect(
        &by_rate,
        &by_rate.replace("5/s", "50/s"),
        &[
            "rate 5/s -> 50/s (looser)",
            "burst 5 by the rate -> 50 by the rate (looser)",
        ],
        &[
            "rate 50/s -> 5/s (tighter)",
            "burst 50 by the rate -> 5 by the rate (tighter)",
        ],
    );
    let bits = ONE.replace("5/s", "8kbit").replace("burst = 10\n", "");
    expect(
        &bits,
        &bits.replace("8kbit", "16mbit"),
        &[
            "rate 8kbit -> 16mbit (looser)",
            "burst 1522b by the rate -> 2000000b by the rate (looser)",
        ],
        &[
            "rate 16mbit -> 8kbit (tighter)",
            "burst 2000000b by the rate -> 1522b by the rate (tighter)",
        ],
    );
    // A window gives its packets at once.
    let window = ONE.replace("5/s", "6/m") + "algorithm = \"fixed-window\"\n";
    expect(
        &window,
        &window.replace("6/m", "3/m"),
        &["rate 6/m -> 3/m (tighter)", &stays("4m")],
        &["rate 3/m -> 6/m (looser)", &stays("2m")],
    );
}

#[test]
fn added_removed_and_reordered_limits_are_reported() {
    expect(ONE, &two(), &["limit two new: 5/s"], &["limit two gone"]);
    let turned = format!("{}{ONE}", ONE.replace("one", "two"));
    let order = ["order of the limits"];
    expect(&two(), &turned, &order, &order);
    // If settings change too, those are reported instead of the order.
    let changed = turned.replacen("5/s", "6/s", 1);
    expect(
        &two(),
        &changed,
        &[
            "two: rate 5/s -> 6/s (looser)",
            "two: burst stays 10: an empty bucket is full again after 1s 667ms",
        ],
        &[
            "two: rate 6/s -> 5/s (tighter)",
            "two: burst stays 10: an empty bucket is full again after 2s",
        ],
    );
}

#[test]
fn changed_lists_are_reported_by_count() {
    let with = |lists: &str| format!("{ONE}[lists]\n{lists}\n");
    let deny = "deny = [\"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\"]";
    let one_for_another = ["deny: 1 added, 1 removed"];
    expect(
        &with(deny),
        &with(&deny.replace("192.0.2.3", "192.0.2.4")),
        &one_for_another,
        &one_for_another,
    );
    expect(
        &with(deny),
        &with("deny = [\"192.0.2.1\", \"192.0.2.4\"]"),
        &["deny: 1 added, 2 removed"],
        &["deny: 2 added, 1 removed"],
    );
    expect(
        &with(deny),
        &with(&format!(
            "{deny}\nallow = [\"192.0.2.9\"]\ntier = [\"192.0.2.8\", \"2001:db8::/32\"]"
        )),
        &["allow: 1 added, 0 removed", "tier: 2 added, 0 removed"],
        &["allow: 0 added, 1 removed", "tier: 0 added, 2 removed"],
    );
}

/// Settings that apply to all limits come first.
#[test]
fn all_changes_are_reported_in_file_order() {
    let new = format!(
        "shadow = true\n{}[lists]\ndeny = [\"192.0.2.1\"]\n",
        two().replacen("5/s", "6/s", 1)
    );
    expect(
        ONE,
        &new,
        &[
            "shadow off -> on",
            "one: rate 5/s -> 6/s (looser)",
            "one: burst stays 10: an empty bucket is full again after 1s 667ms",
            "limit two new: 5/s",
            "deny: 1 added, 0 removed",
        ],
        &[
            "shadow on -> off",
            "limit two gone",
            "rate 6/s -> 5/s (tighter)",
            "burst stays 10: an empty bucket is full again after 2s",
            "deny: 0 added, 1 removed",
        ],
    );
}

#[test]
fn changed_fleet_scopes_are_reported() {
    let host = format!("{ONE}[lists]\ndeny = []\n");
    let shared = format!(
        "fleet = \"edge\"\n{ONE}scope = \"fleet\"\n[lists]\ndeny = {{ scope = \"fleet\" }}\n"
    );
    expect(
        &host,
        &shared,
        &[
            "fleet none -> edge",
            "scope host -> fleet",
            "deny: scope host -> fleet",
        ],
        &[
            "fleet edge -> none",
            "scope fleet -> host",
            "deny: scope fleet -> host",
        ],
    );
}
