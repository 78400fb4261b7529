//! Changes the attachment again and again: reloads, lists, limits, resets.

use super::{state::Soak, wire::Role};
use limiter_tests::{files::at_driver, number};

/// Tokens per second of the limit that never changes.
pub const RATE: u32 = 50;
/// Burst of the limit that never changes.
pub const BURST: u32 = 100;

/// The most bytes of a ban, and the most bans that change between two readings of `status`.
const BAN: u64 = 200;
const CHANGING: u64 = 1_001;

/// Line of a file that denies a source.
const DENY: &str = "lists.deny = [\"203.0.113.200\"]\n";

/// Commands under every configuration. `reset` fails if the source is not in the table, or its entry is in use.
const CHANGES: [&str; 6] = [
    "allow add eth0 203.0.113.201",
    "set eth0 --new-sources 1k/s",
    "reset eth0 198.51.100.100",
    "allow remove eth0 203.0.113.201",
    "set eth0 --malformed drop",
    "set eth0 --malformed pass",
];

/// Configurations that are applied in turn: the file besides the common limit, and commands for its limits. The first
/// takes the fast path: one limit, no lists.
const CONFIGURATIONS: [(&str, &[&str]); 4] = [
    ("", &[]),
    (
        r#"
malformed = "pass"
lists.allow = ["192.0.2.128/25"]
lists.partners = ["203.0.113.210"]
[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "20/s"
burst = 40
[[limit]]
name = "partners"
match = { source = "partners" }
key = "/24,/48"
rate = "1mbit"
burst = "128kb"
[[limit]]
name = "fragments"
match = { fragments = true }
rate = "5/s"
cost = 2
"#,
        &[
            "set eth0 --limit dns --rate 40/s",
            "set eth0 --limit dns --shadow on",
        ],
    ),
    (
        r#"
[[limit]]
name = "subnet"
key = "/24,/48"
rate = "1k/s"
shadow = true
[[limit]]
name = "all-together"
key = "interface"
rate = "5k/s"
shadow = true
"#,
        &["set eth0 --limit subnet --rate 40/s"],
    ),
    (
        r#"
exempt = ["established", "control"]
[[limit]]
name = "window"
match = { protocol = "udp", destination_port = "50-60" }
key = "/32,/128,destination_port"
rate = "20/s"
algorithm = "fixed-window"
"#,
        &["set eth0 --limit window --rate 40/s"],
    ),
];

/// A file with one limit in common, whose bound must hold through all changes.
fn file(besides: &str) -> String {
    format!(
        "interfaces = [\"eth0\"]\nmax_sources = 65536\nnew_sources = \"2k/s\"\nnew_sources_burst = 4000\n{besides}\n\
         [[limit]]\nname = \"all\"\nrate = \"{RATE}/s\"\nburst = {BURST}\n"
    )
}

/// The first configuration file.
pub fn first() -> String {
    file("")
}

/// Applies all configurations, again and again.
pub fn run(soak: &Soak<'_>) {
    let mut memory = [None; CONFIGURATIONS.len()];
    while soak.goes_on() {
        for ((besides, changes), memory) in CONFIGURATIONS.iter().zip(&mut memory) {
            deny_through(soak, besides);
            let status = soak.hosts.status();
            let bans = status["bans"]["by_origin"].as_object().unwrap();
            let bans: u64 = bans.values().map(number).sum();
            let used = number(&status["sources"]["memory_bytes"]);
            let (first, before) = *memory.get_or_insert((used, bans));
            let most = BAN * (bans.abs_diff(before) + CHANGING);
            assert!(
                used.abs_diff(first) <= most,
                "memory of the maps was {first}, is {used}, with {before} and {bans} bans, under: {besides}"
            );
            for line in CHANGES.iter().chain(*changes) {
                let outcome = soak.ask(line);
                let not_there = outcome.stderr.contains("not in the table");
                assert!(outcome.status == 0 || not_there, "{outcome:#?}");
                soak.sleep(soak.plan.pause);
            }
            let wrong = soak.folder.write("wrong.toml", "nothing = 1");
            soak.ask(&format!("reload eth0 --config {wrong}")).expect(1);
            if !soak.goes_on() {
                return;
            }
        }
    }
}

/// Denies a source, applies the next configuration, which denies it too, and undoes that. No packet of the source may
/// pass meanwhile.
fn deny_through(soak: &Soak<'_>, besides: &str) {
    let denied = soak.wire.of(&[Role::Denied]).next().unwrap();
    let passed = || {
        soak.wire.settle(soak.hosts);
        denied.passed()
    };
    soak.limiter("deny add eth0 203.0.113.200");
    let before = passed();
    let text = DENY.to_owned() + &file(besides);
    let file = soak.folder.write("limiter.toml", at_driver(text));
    soak.limiter(&format!("reload eth0 --config {file}"));
    soak.sleep(soak.plan.pause);
    soak.limiter("deny list eth0");
    assert_eq!(
        passed(),
        before,
        "a source was denied all the time, while this was put in force: {besides}"
    );
    soak.limiter("deny remove eth0 203.0.113.200");
}
