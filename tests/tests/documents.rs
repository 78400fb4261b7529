//! Every verb that prints facts has `--json`. Its document follows `docs/schema`, has the warnings, and changes no exit
//! status.

use std::{cell::RefCell, collections::BTreeSet, path::Path};

use limiter_tests::{
    captures::{Captured, pcap},
    command::limiter,
    feeds::Feed,
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel, schema,
    traffic::{Traffic, udp},
};
use serde_json::Value;

/// A document of this schema, in `docs/schema`.
const fn json(schema: &'static str) -> Result<&'static str, &'static str> {
    Ok(schema)
}

/// No document, for this reason.
const fn none(why: &'static str) -> Result<&'static str, &'static str> {
    Err(why)
}

/// Each verb, with the schema of its document.
const VERBS: [(&str, Result<&str, &str>); 44] = [
    ("attach", json("changes")),
    ("set", json("changes")),
    ("limit", json("changes")),
    ("reload", json("changes")),
    ("keep", json("changes")),
    ("reset", json("changes")),
    ("adapt", json("adapt")),
    ("detach", json("changes")),
    ("status", json("status")),
    ("top", json("top")),
    ("watch", json("watch")),
    ("log", json("log")),
    ("check", json("check")),
    ("connections", json("connections")),
    (
        "export",
        none("serves metrics, which have formats of their own"),
    ),
    ("notify", none("its events are JSON where they are sent")),
    ("allow add", json("changes")),
    ("allow remove", json("changes")),
    ("allow replace", json("changes")),
    ("allow clear", json("changes")),
    ("allow list", json("list")),
    ("deny add", json("changes")),
    ("deny remove", json("changes")),
    ("deny replace", json("changes")),
    ("deny clear", json("changes")),
    ("deny list", json("list")),
    ("tier add", json("changes")),
    ("tier remove", json("changes")),
    ("tier replace", json("changes")),
    ("tier clear", json("changes")),
    ("tier list", json("list")),
    ("ban", json("changes")),
    ("unban", json("changes")),
    ("bans", json("bans")),
    ("feed", json("changes")),
    ("doctor", json("doctor")),
    ("learn", json("learn")),
    ("explain", json("explain")),
    ("replay", json("replay")),
    ("config check", json("config-check")),
    ("config show", json("config-show")),
    ("config diff", json("difference")),
    ("config save", json("changes")),
    ("history", json("history")),
];

/// Each verb that prints no facts of a host, besides those of [`VERBS`].
const TEXTS: [(&str, Result<&str, &str>); 6] = [
    ("edit", none("asks questions on a terminal")),
    ("agent", none("runs until it is interrupted")),
    ("agent schema", none("prints SQL")),
    ("preset", json("preset")),
    ("completions", none("prints a script for a shell")),
    ("man", none("prints roff")),
];

fn verbs() -> impl Iterator<Item = (&'static str, Result<&'static str, &'static str>)> {
    VERBS.into_iter().chain(TEXTS)
}

/// The names in a list of commands of a help text: indented, with their summary behind spaces.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let entries = lines.filter_map(|line| line.split_once("  "));
    let names = entries.map(|(name, _)| name.to_owned());
    names
        .filter(|name| {
            !["", "help"].contains(&&**name) && name.bytes().all(|byte| byte.is_ascii_lowercase())
        })
        .collect()
}

#[test]
fn table_has_every_verb_and_help_has_json_if_the_table_says_so() {
    let help = |verb: &str| {
        let words = [verb.split(' ').collect(), vec!["--help"]].concat();
        limiter(&words).stdout
    };
    let mut found = Vec::new();
    for verb in listed(&limiter("--help").stdout) {
        let inner = help(&verb);
        match inner.split_once("\nCommands:\n") {
            Some((_, commands)) => {
                let (commands, _) = commands.split_once("\n\n").unwrap_or((commands, ""));
                let names = listed(commands).into_iter();
                found.extend(names.map(|name| format!("{verb} {name}")));
                if verb == "agent" {
                    found.push(verb);
                }
            }
            None => found.push(verb),
        }
    }
    let named: BTreeSet<_> = verbs().map(|(verb, _)| verb.to_owned()).collect();
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), named);
    for (verb, document) in verbs() {
        let has_json = help(verb).contains("--json");
        assert_eq!(has_json, document.is_ok(), "{verb}: {document:?}");
        if let Ok(name) = document {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
            assert!(folder.join(format!("{name}.json")).exists(), "{verb}");
        }
    }
}

/// Runs commands with `--json`, checks their documents, and remembers their verbs.
struct Checked<'h> {
    hosts: &'h Hosts,
    seen: RefCell<BTreeSet<&'static str>>,
}

impl Checked<'_> {
    /// Runs the verb with these words behind it. Returns its document, the first of several.
    #[track_caller]
    fn run(&self, verb: &'static str, rest: &str, status: i32) -> Value {
        let outcome = self
            .hosts
            .limiter(&format!("{verb} {rest} --json").replace("  ", " "));
        outcome.expect(status);
        let (_, document) = verbs().find(|(name, _)| *name == verb).unwrap();
        let values: Vec<Value> = serde_json::Deserializer::from_str(&outcome.stdout)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
        for value in &values {
            let faults = schema::faults(document.unwrap(), value);
            assert_eq!(faults, "", "{verb} {rest}: {value:#}");
        }
        self.seen.borrow_mut().insert(verb);
        let first = values.into_iter().next();
        first.unwrap_or_else(|| panic!("no document: {outcome:#?}"))
    }

    /// Runs a verb that changes something. Returns its only result.
    #[track_caller]
    fn changed(&self, verb: &'static str, rest: &str, changed: bool) -> Value {
        let document = self.run(verb, rest, 0);
        assert_eq!(
            document["results"].as_array().unwrap().len(),
            1,
            "{document:#}"
        );
        let result = document["results"][0].clone();
        assert_eq!(result["changed"], changed, "{verb} {rest}: {document:#}");
        assert!(
            !result["lines"][0].as_str().unwrap().contains("eth0: "),
            "{result}"
        );
        result
    }
}

const FILE: &str = r#"
[lists]
partners = ["192.0.2.0/24"]

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "1/h"
burst = 3
"#;

#[test]
fn document_of_every_verb_follows_its_schema() {
    need_kernel!();
    if !schema::has_validator("documents") {
        return;
    }
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let checked = Checked {
        hosts: &hosts,
        seen: RefCell::default(),
    };
    let file = folder.write("limiter.toml", at_driver(FILE));
    let attached = checked.changed("attach", &format!("eth0 --config {file} --try 1h"), true);
    assert_eq!(attached["status"]["name"], "eth0", "{attached:#}");
    assert!(attached["status"]["try_until"].is_string(), "{attached:#}");
    checked.changed("keep", "eth0", true);
    checked.changed("keep", "eth0", false);
    changes(&checked, &file);
    answers(&checked, &folder);
    checked.changed("detach", "eth0", true);
    checked.changed("detach", "eth0", false);
    let wanted = verbs().filter(|(_, document)| document.is_ok());
    let mut wanted: BTreeSet<_> = wanted.map(|(verb, _)| verb).collect();
    // The test program `schema` has it, because it ends by a signal.
    wanted.remove("watch");
    assert_eq!(checked.seen.into_inner(), wanted);
}

fn changes(checked: &Checked<'_>, file: &str) {
    let set = checked.changed("set", "eth0 --limit dns --rate 2/h", true);
    assert_eq!(set["lines"][0], "rate 1/h -> 2/h", "{set:#}");
    let dry = checked.changed("set", "eth0 --limit dns --rate 3/h --dry-run", false);
    assert!(
        dry["lines"][1].as_str().unwrap().contains("dry run"),
        "{dry:#}"
    );
    checked.changed("limit", "eth0 ssh --rate 5/m --port 22", true);
    checked.changed("limit", "eth0 ssh --rate 5/m", false);
    let reload = checked.run("reload", "eth0", 0);
    assert_eq!(reload["errors"], serde_json::json!([]), "{reload:#}");
    for verb in ["allow add", "deny add"] {
        checked.changed(verb, "eth0 203.0.113.7", true);
        checked.changed(verb, "eth0 203.0.113.7", false);
    }
    checked.changed("tier add", "eth0 partners 203.0.113.7", true);
    for verb in ["allow remove", "deny remove"] {
        checked.changed(verb, "eth0 203.0.113.7", true);
    }
    checked.changed("tier remove", "eth0 partners 203.0.113.7", true);
    for verb in ["allow replace", "deny replace"] {
        checked.changed(verb, "eth0 203.0.113.8", true);
    }
    checked.changed("tier replace", "eth0 partners 203.0.113.8", true);
    checked.run("allow list", "eth0", 0);
    checked.run("deny list", "eth0", 0);
    checked.run("tier list", "eth0 partners", 0);
    for verb in ["allow clear", "deny clear"] {
        checked.changed(verb, "eth0", true);
    }
    checked.changed("tier clear", "eth0 partners", true);
    // The file has none of these: a note says so, on standard error and in the document.
    let noted = checked.run("set", "eth0 --malformed pass", 0);
    let warning = noted["warnings"][0].as_str().unwrap();
    assert!(warning.contains(file), "{noted:#}");
    checked.changed("ban", "eth0 203.0.113.9 --for 1h", true);
    checked.run("bans", "eth0", 0);
    checked.changed("unban", "eth0 203.0.113.9", true);
    let feed = Feed::new(checked.hosts, "documents");
    let list = feed.write("list", "203.0.113.10\n");
    let path = feed.configure(&format!("list = '{list}'\ninterfaces = ['eth0']"));
    let once = checked.changed("feed", &format!("{path} --once"), true);
    assert_eq!(once["name"], *feed.name, "{once:#}");
    checked.changed("feed", &format!("{path} --remove"), true);
    checked.changed("feed", &format!("{path} --remove"), false);
}

fn answers(checked: &Checked<'_>, folder: &Folder) {
    let hosts = checked.hosts;
    let traffic = Traffic::new(hosts);
    traffic.passed_to(53, "198.51.100.7", 10);
    checked.run("status", "", 0);
    checked.run("top", "eth0 --once --interval 100ms", 0);
    checked.run("check", "eth0 198.51.100.7", 0);
    checked.run("connections", "eth0", 0);
    checked.changed("reset", "eth0 198.51.100.7", true);
    checked.run("doctor", "eth0", 0);
    checked.run("config diff", "eth0", 0);
    let saved = folder.path("saved.toml");
    checked.changed("config save", &format!("eth0 {saved}"), true);
    checked.changed("config save", &format!("eth0 {saved}"), false);
    checked.run("history", "eth0", 0);
    let shown = checked.run("config show", "eth0", 0);
    assert_eq!(shown["settings"]["limit"][0]["burst"], 3, "{shown:#}");
    let packets = (0..30_u8).map(|number| {
        let source = [192, 0, 2, 10 + number % 10].into();
        Captured::whole(u64::from(number) * 1_000_000_000, udp(hosts, source, 53))
    });
    let capture = pcap(&packets.collect::<Vec<_>>());
    let capture = folder.write("test.pcap", capture);
    let replay = checked.run(
        "replay",
        &format!("{capture} --rate 1/h --exempt established"),
        0,
    );
    assert!(
        replay["warnings"][0].as_str().unwrap().contains("sockets"),
        "{replay:#}"
    );
    checked.run(
        "explain",
        &format!("--capture {capture} --ordinary {capture}"),
        0,
    );
    let learnt = checked.run("learn", &format!("--capture {capture}"), 0);
    assert!(learnt["settings"]["limit"].is_array(), "{learnt:#}");
    let adaptive = "[[limit]]\nname = 'all'\nrate = '1/s'\nburst = 10\nadaptive = { when = { cpu_pressure = '20%' } }\n";
    let adaptive = folder.write("adaptive.toml", adaptive);
    checked.run(
        "adapt",
        &format!("--simulate {capture} --config {adaptive} --capacity 1/s"),
        0,
    );
    let valid = checked.run("config check", &adaptive, 0);
    assert_eq!(valid["valid"], true, "{valid:#}");
    let wrong = folder.write("wrong.toml", "rat = 5\n[[limit]]\nname = 'x'\n");
    let mistakes = checked.run("config check", &wrong, 1);
    assert_eq!(mistakes["mistakes"][0]["line"], 1, "{mistakes:#}");
    assert_eq!(mistakes["valid"], false, "{mistakes:#}");
    let presets = checked.run("preset", "", 0);
    assert!(
        presets["presets"].as_array().unwrap().len() > 5,
        "{presets:#}"
    );
    let preset = checked.run("preset", "web -i eth7", 0);
    assert_eq!(preset["presets"].as_array().unwrap().len(), 1, "{preset:#}");
    std::thread::scope(|scope| {
        let log = scope.spawn(|| checked_log(hosts));
        while !log.is_finished() {
            traffic.passed_to(53, "198.51.100.8", 10);
        }
        let faults = schema::faults("log", &log.join().unwrap());
        assert_eq!(faults, "");
    });
    checked.seen.borrow_mut().insert("log");
}

/// The first message of a log, while packets are dropped.
fn checked_log(hosts: &Hosts) -> Value {
    let log = hosts.limiter("log eth0 --level trace --for 2s --json");
    log.expect(0);
    serde_json::from_str(log.stdout.lines().next().unwrap()).unwrap()
}

#[test]
fn json_has_the_exit_status_of_the_text_in_every_state() {
    need_kernel!();
    let hosts = Hosts::new();
    let compare = |line: &str, status: i32| {
        hosts.limiter(line).expect(status);
        let with_json = hosts.limiter(&format!("{line} --json"));
        with_json.expect(status);
        with_json
    };
    // Nothing is attached.
    for line in [
        "status",
        "status all",
        "bans",
        "bans all",
        "detach eth0",
        "detach --all",
    ] {
        compare(line, 0);
    }
    for line in [
        "status eth0",
        "bans eth0",
        "top eth0 --once",
        "check eth0 192.0.2.7",
        "allow list eth0",
        "config show eth0",
        "set eth0 --rate 5/s",
        "ban eth0 192.0.2.7",
        "keep eth0",
        "reload eth0",
        "detach eth0 --strict",
    ] {
        let outcome = compare(line, 1);
        assert!(!outcome.stderr.is_empty(), "{line}");
    }
    hosts.run("attach eth0 --rate 5/s");
    for line in [
        "attach eth0 --rate 5/s",
        "keep eth0",
        "reset eth0 --all",
        "unban eth0 --all",
    ] {
        compare(line, 0);
        let strict = compare(&format!("{line} --strict"), 1);
        let document: Value = serde_json::from_str(&strict.stdout).unwrap();
        assert_eq!(document["results"][0]["changed"], false, "{document:#}");
        assert!(strict.stderr.contains("eth0: "), "{strict:#?}");
    }
    // The errors of all interfaces are in the document, and on standard error.
    let outcome = hosts.limiter("reset eth0,nosuch,other --all --json");
    outcome.expect(1);
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["results"][0]["name"], "eth0", "{document:#}");
    let errors = document["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "{document:#}");
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:#?}");
    for (error, name) in errors.iter().zip(["nosuch", "other"]) {
        assert!(error.as_str().unwrap().contains(name), "{document:#}");
    }
}
