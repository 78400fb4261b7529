//! The commands for an attack in docs/operating.md work as documented, on two configurations.

use std::{
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::{Outcome, prepared},
    eventually,
    hosts::on,
    need_kernel,
    recipes::{Site, blocks_of, recipe},
};
use serde_json::json;

/// The sources in the document: an attacker, and a client that should pass.
const FLOODER: &str = "203.0.113.66";
const IN_NETWORK: &str = "198.51.100.9";
const FRIEND: &str = "192.0.2.7";
/// Number of packets of a flood, more than any burst.
const FLOOD: u64 = 300;

/// The commands under "During an attack", without their comments.
fn commands() -> Vec<String> {
    let document = include_str!("../../docs/operating.md");
    let blocks = blocks_of(document, "sh").into_iter();
    let blocks = blocks.filter(|(heading, _)| *heading == "During an attack");
    let text: String = blocks.map(|(_, text)| text).collect();
    let commands = text
        .lines()
        .map(|line| line.split(" #").next().unwrap().trim());
    commands.map(str::to_owned).collect()
}

/// A host under attack.
struct Attacked {
    site: Site,
    /// Number of the next new source.
    fresh: u8,
    /// Words of the document, and those of this configuration.
    instead: &'static [(&'static str, &'static str)],
}

impl Attacked {
    fn new(instead: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            site: Site::unlisted(),
            fresh: 0,
            instead,
        }
    }

    /// Runs a command. The document's limit is the one of the recipe `web`: other configurations have another.
    fn run(&self, line: &str) -> Outcome {
        let mut line = line.to_owned();
        for (of_web, here) in self.instead {
            line = line.replace(of_web, here);
        }
        let (command, file) = line.split_once(" > ").unwrap_or((&line, ""));
        let outcome = self.site.limiter(command);
        outcome.expect(0);
        if !file.is_empty() {
            self.site.folder.write(file, &outcome.stdout);
        }
        outcome
    }

    /// Sends `count` packets from `source`. Returns the number that pass.
    fn passed(&self, source: &str, count: u64) -> u64 {
        self.passed_at(source, count, Duration::ZERO)
    }

    /// Sends packets with a pause before each. Returns the number that pass.
    fn passed_at(&self, source: &str, count: u64, pause: Duration) -> u64 {
        let frame = self.site.syn(source, 443);
        let [seen, passed] = self.site.counted();
        for _ in 0..count {
            thread::sleep(pause);
            self.site.wire.send(&frame);
        }
        eventually("all packets are seen", || {
            self.site.counted()[0] >= seen + count
        });
        self.site.counted()[1] - passed
    }

    fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("10.{}.0.1", self.fresh)
    }

    /// Packets per second of a source with an empty bucket.
    fn refills(&mut self) -> f64 {
        let source = self.fresh();
        assert!(self.passed(&source, FLOOD) < FLOOD, "the bucket is empty");
        let began = Instant::now();
        let passed = self.passed_at(&source, FLOOD, Duration::from_millis(10));
        passed as f64 / began.elapsed().as_secs_f64()
    }

    fn shown(&self) -> String {
        self.run("limiter config show eth0").stdout
    }

    /// Runs all commands, and checks that each has the documented effect.
    fn run_all(mut self) {
        let before = self.shown();
        let rate = self.refills();
        let mut edited = String::new();
        for line in commands() {
            self.act(&line, &before, rate, &mut edited);
        }
    }

    fn act(&mut self, line: &str, before: &str, rate: f64, edited: &mut String) {
        match line {
            "limiter status eth0" => {
                assert!(self.passed(FLOODER, FLOOD) < FLOOD);
                let text = self.run(line).stdout;
                assert!(text.contains("over the limit"), "{text}");
            }
            "limiter top eth0 --once" => {
                let text = self.run(line).stdout;
                assert!(text.contains(FLOODER), "{text}");
            }
            "limiter watch eth0 --by source,port --for 10s" => {
                let table = self.watched(line);
                let of_flooder = table.lines().find(|row| row.contains(FLOODER));
                assert!(of_flooder.unwrap_or_default().contains(" 443 "), "{table}");
            }
            "limiter explain eth0" => {
                let text = self.watched(line);
                assert!(text.contains(" packets/s, "), "{text}");
                assert!(text.contains("destination_port  443 "), "{text}");
            }
            "limiter watch eth0 -n 20" => {
                let drops = self.watched(line);
                assert_eq!(drops.lines().count(), 20, "{drops}");
                assert!(drops.lines().all(|drop| drop.contains(FLOODER)), "{drops}");
            }
            "limiter ban eth0 203.0.113.66 --reason flood" => {
                self.run(line);
                assert_eq!(self.passed(FLOODER, 50), 0, "banned");
                *edited = self.shown();
            }
            "limiter ban eth0 198.51.100.0/24 --for 1h" => {
                self.run(line);
                assert_eq!(self.passed(IN_NETWORK, 50), 0, "banned");
            }
            "limiter unban eth0 198.51.100.0/24" => {
                self.run(line);
                assert_eq!(self.passed(IN_NETWORK, 1), 1, "no longer banned");
                assert_eq!(self.shown(), *edited, "undone");
            }
            "limiter set eth0 --limit connect --rate 10/s" => {
                self.run(line);
                let now = self.refills();
                assert!(now < 0.75 * rate, "{now} of {rate} a second");
            }
            "limiter set eth0 --new-sources 1k/s" => {
                let before = self.site.hosts.status()["new_sources"].clone();
                self.run(line);
                let now = self.site.hosts.status()["new_sources"].clone();
                let half = [
                    (json!("2k/s"), json!("1k/s")),
                    (json!("10k/s"), json!("5k/s")),
                ];
                assert!(half.contains(&(before, now)));
            }
            "limiter set eth0 --limit connect --rate 20/s --new-sources 2k/s" => {
                self.run(line);
                assert_eq!(self.shown(), *edited, "undone");
                let now = self.refills();
                assert!(now > 0.75 * rate, "{now} of {rate} a second");
            }
            "limiter set eth0 --limit connect --rate 5/s --dry-run" => {
                assert!(self.run(line).stdout.contains("nothing was changed"));
                assert_eq!(self.shown(), *edited);
            }
            "limiter set eth0 --limit connect --rate 5/s --try 2m" => {
                self.run(line);
                assert!(self.site.hosts.status()["try_until"].is_string());
                let now = self.refills();
                assert!(now < 0.5 * rate, "{now} of {rate} a second");
            }
            "limiter keep eth0 --revert" => {
                self.run(line);
                assert_eq!(self.shown(), *edited, "undone");
                let now = self.refills();
                assert!(now > 0.75 * rate, "{now} of {rate} a second");
            }
            "limiter set eth0 --shadow on" => {
                self.run(line);
                let source = self.fresh();
                assert_eq!(self.passed(&source, FLOOD), FLOOD, "shadow passes all");
            }
            "limiter set eth0 --shadow off" => {
                self.run(line);
                let source = self.fresh();
                assert!(self.passed(&source, FLOOD) < FLOOD, "no packet was dropped");
                assert_eq!(self.shown(), *edited, "undone");
            }
            "limiter check eth0 192.0.2.7" => {
                self.passed(FRIEND, FLOOD);
                let text = self.run(line).stdout;
                assert!(text.contains(FRIEND), "{text}");
            }
            "limiter reset eth0 192.0.2.7" => {
                let full = self.fresh();
                let burst = self.passed(&full, FLOOD);
                self.passed(FRIEND, FLOOD);
                self.run(line);
                assert!(self.passed(FRIEND, burst) >= burst - 1, "full again");
            }
            "limiter allow add eth0 192.0.2.7" => {
                self.run(line);
                assert_eq!(self.passed(FRIEND, FLOOD), FLOOD, "allowed");
            }
            "limiter allow remove eth0 192.0.2.7" => {
                self.run(line);
                assert_eq!(self.shown(), *edited, "undone");
            }
            "limiter config save eth0 attack.toml" => {
                self.run(line);
                self.run("limiter config check attack.toml");
                let file = fs::read_to_string(self.site.folder.path("attack.toml")).unwrap();
                assert_eq!(file, before, "all edits are undone; bans stay");
            }
            "limiter detach eth0" => {
                let pins = self.site.hosts.pins();
                self.run(line);
                assert!(!pins.exists(), "{pins:?}");
                let status = self.site.hosts.json("status --json");
                assert_eq!(status["interfaces"], json!([]));
            }
            other => panic!("no check for the runbook's '{other}'"),
        }
    }

    /// Runs `limiter watch` during the flood. Returns what it prints.
    fn watched(&self, line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().skip(1).collect();
        let mut watch = prepared(&words);
        watch.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut watch = on(&self.site.hosts.server, || watch.spawn()).unwrap();
        while watch.try_wait().unwrap().is_none() {
            self.passed(FLOODER, 50);
        }
        let watched = Outcome::of(line.to_owned(), watch.wait_with_output().unwrap());
        watched.expect(0);
        watched.stdout
    }
}

#[test]
fn runbook_works_on_the_plain_configuration() {
    need_kernel!();
    let attacked = Attacked::new(&[
        ("connect", "default"),
        ("rate 5/s", "rate 1/s"),
        ("rate 10/s", "rate 2/s"),
        ("rate 20/s", "rate 5/s"),
        // Half of the default, and the default.
        ("new-sources 1k/s", "new-sources 5k/s"),
        ("new-sources 2k/s", "new-sources 10k/s"),
    ]);
    attacked.run("limiter attach eth0 --rate 5 --burst 10");
    attacked.run_all();
}

#[test]
fn runbook_works_on_the_web_recipe() {
    need_kernel!();
    let attacked = Attacked::new(&[]);
    let recipe = recipe("web");
    attacked.site.folder.write("limiter.toml", recipe);
    attacked.run("limiter attach --config limiter.toml");
    attacked.run_all();
}
