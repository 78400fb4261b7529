//! Changes the attachment again and again: reloads, lists, limits, resets.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::Ordering,
};

use super::{
    Soak,
    configurations::{CONFIGURATIONS, Configuration},
    frames::{ALLOWED, DENIED, PARTNER, RESET},
};
use crate::number;

/// Applies all configurations, again and again.
pub fn run(soak: &Soak<'_>) {
    let commands = Commands {
        soak,
        denied: DENIED.to_string(),
    };
    let mut memory = [None; CONFIGURATIONS.len()];
    for round in 1.. {
        for (index, next) in CONFIGURATIONS.iter().enumerate() {
            if !soak.goes_on() {
                return;
            }
            let before = &CONFIGURATIONS[(index + CONFIGURATIONS.len() - 1) % CONFIGURATIONS.len()];
            // In the first round, the first configuration is already attached.
            let before = if round == 1 && index == 0 {
                next
            } else {
                before
            };
            commands.touch(before, round);
            commands.deny_through(next);
            let used = number(&soak.hosts.status()["sources"]["memory_bytes"]);
            let first = *memory[index].get_or_insert(used);
            assert_eq!(used, first, "memory of the maps under '{}'", next.name);
            commands.wrong();
        }
    }
}

struct Commands<'s> {
    soak: &'s Soak<'s>,
    denied: String,
}

impl Commands<'_> {
    fn run(&self, what: &'static str, arguments: &[&str]) {
        self.soak.limiter(what, arguments);
        self.soak.sleep(self.soak.plan.pause);
    }

    /// Changes the current configuration, and undoes the change.
    fn touch(&self, now: &Configuration, round: u32) {
        let (allowed, partner) = (ALLOWED.to_string(), PARTNER.to_string());
        self.run("allow", &["allow", "add", "eth0", &allowed]);
        if now.partners {
            let (add, remove) = (["tier", "add"], ["tier", "remove"]);
            let partner = ["eth0", "partners", &partner];
            self.run("tier", &[&add[..], &partner].concat());
            self.reset();
            self.run("tier", &[&remove[..], &partner].concat());
        }
        let number = 1_000 + round % 7 * 300;
        let new_sources = ["--new-sources", &number.to_string()];
        self.run("set", &[&["set", "eth0"], &new_sources[..]].concat());
        if let Some(other) = now.other {
            let set = ["set", "eth0", "--limit", other];
            let rate = format!("{}/s", 40 + round % 5);
            self.run("set", &[&set[..], &["--rate", &rate]].concat());
            self.run("set", &[&set[..], &["--shadow", "on"]].concat());
        }
        self.reset();
        self.run("allow", &["allow", "remove", "eth0", &allowed]);
        let malformed = ["drop", "pass"][round as usize % 2];
        self.run("set", &["set", "eth0", "--malformed", malformed]);
    }

    fn reset(&self) {
        let (begun, done) = &self.soak.resets;
        begun.fetch_add(1, Ordering::SeqCst);
        let source = RESET.to_string();
        // The command reports it if the source is not in the table, or its entry is in use.
        let outcome = self.soak.ask(&["reset", "eth0", &source]);
        done.fetch_add(1, Ordering::SeqCst);
        let not_there = outcome.status == 1 && outcome.stderr.contains("not in the table");
        assert!(outcome.status == 0 || not_there, "{outcome:#?}");
        self.soak.count("reset");
    }

    /// Denies a source, applies the next configuration, which denies it too, and undoes that. No packet of the source
    /// may pass meanwhile.
    fn deny_through(&self, next: &Configuration) {
        let soak = self.soak;
        self.run("deny", &["deny", "add", "eth0", &self.denied]);
        let come = self.come_by_now(DENIED);
        self.reload(next);
        self.run("deny", &["deny", "list", "eth0"]);
        assert_eq!(
            self.come_by_now(DENIED),
            come,
            "{DENIED} was denied all the time, while '{}' was put in force",
            next.name
        );
        self.run("deny", &["deny", "remove", "eth0", &self.denied]);
        soak.count("check of a denied source");
    }

    fn come_by_now(&self, source: Ipv4Addr) -> u64 {
        self.soak.arrivals.settle(self.soak.hosts);
        self.soak.arrivals.from(IpAddr::V4(source))
    }

    fn reload(&self, next: &Configuration) {
        let file = self.soak.folder.write("limiter.toml", next.text(true));
        self.soak.reloads.fetch_add(1, Ordering::SeqCst);
        self.soak
            .limiter("reload", &["reload", "eth0", "--config", &file]);
        self.soak.reloads.fetch_add(1, Ordering::SeqCst);
        self.soak.sleep(self.soak.plan.pause);
    }

    /// Runs a command that must fail and change nothing.
    fn wrong(&self) {
        let wrong = self.soak.folder.path("wrong.toml");
        fs::write(&wrong, "nothing = 1").unwrap();
        let arguments = ["reload", "eth0", "--config", &wrong];
        self.soak.ask(&arguments).expect(1);
        self.soak.count("reload of a wrong file");
    }
}
