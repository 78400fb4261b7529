//! Prefixes of the fleet and of the host's own configuration stay on a list independently of each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use limiter_config::lists::prefix;
use limiter_kernel::ops::set;
use limiter_tests::{
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel, number,
    traffic::Traffic,
};

const PREFIXES: [&str; 3] = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];

type Prefixes = BTreeSet<&'static str>;

fn text(deny: &str) -> String {
    format!(
        "fleet = \"edge\"\n[lists]\ndeny = {deny}\ngold = []\n[[limit]]\nname = \"all\"\nrate = \"1M/s\"\nscope = \"fleet\"\n"
    )
}

fn shared(own: &Prefixes) -> String {
    let own: Vec<_> = own.iter().collect();
    text(&format!("{{ scope = \"fleet\", prefixes = {own:?} }}"))
}

struct Attached {
    hosts: Hosts,
    _folder: Folder,
    file: String,
}

impl Attached {
    fn with(text: &str) -> Self {
        let (hosts, folder) = (Hosts::new(), Folder::new());
        let file = folder.write("limiter.toml", at_driver(text));
        hosts.run(&["attach", "eth0", "--config", &file]);
        Self {
            hosts,
            _folder: folder,
            file,
        }
    }

    fn reload(&self, text: &str) {
        fs::write(&self.file, at_driver(text)).unwrap();
        self.hosts.run(&["reload", "eth0"]);
    }

    /// Sets the fleet's prefixes on a list. Returns false if they were unchanged.
    fn overlay(&self, list: &str, prefixes: &Prefixes) -> bool {
        let prefixes = prefixes.iter().map(|text| prefix(text).unwrap()).collect();
        let lists = BTreeMap::from([(list.to_owned(), prefixes)]);
        let namespace = &self.hosts.server.namespace;
        let overlay = || async { set::overlay("eth0", lists).await };
        let done = namespace.block_on(overlay).unwrap();
        done.unwrap().is_some()
    }

    fn denied(&self) -> Vec<String> {
        let list = self.hosts.run(&["deny", "list", "eth0"]);
        list.lines().map(str::to_owned).collect()
    }

    fn shown(&self) -> String {
        self.hosts.run(&["config", "show", "eth0"])
    }
}

/// Random changes by the fleet and by the host's own file, in turn.
#[test]
fn prefix_is_denied_until_host_and_fleet_have_removed_it() {
    need_kernel!();
    let (mut own, mut of_fleet) = (Prefixes::new(), Prefixes::new());
    let attached = Attached::with(&shared(&own));
    let traffic = Traffic::new(&attached.hosts);
    let mut random = fastrand::Rng::with_seed(1);
    for step in 0..16 {
        let picked: Prefixes = PREFIXES.into_iter().filter(|_| random.bool()).collect();
        if step % 2 == 0 {
            assert_eq!(attached.overlay("deny", &picked), picked != of_fleet);
            of_fleet = picked;
        } else {
            attached.reload(&shared(&picked));
            own = picked;
        }
        let why = format!("own {own:?}, fleet {of_fleet:?}");
        let denied: Vec<_> = own.union(&of_fleet).copied().collect();
        assert_eq!(attached.denied(), denied, "{why}");
        for prefix in PREFIXES {
            let passed = if denied.contains(&prefix) { 0 } else { 3 };
            assert_eq!(traffic.passed(prefix, 3), passed, "{prefix}, {why}");
            let check = attached.hosts.json(&["check", "eth0", prefix, "--json"]);
            let is_by_fleet = of_fleet.contains(prefix) && !own.contains(prefix);
            let author = is_by_fleet.then_some("fleet");
            assert_eq!(check["lists"][0]["by"].as_str(), author, "{prefix}, {why}");
        }
        // The file shows the host's own prefixes, and reads back.
        let shown = attached.shown();
        assert!(shown.contains("fleet = \"edge\"\n") && shown.contains("scope = \"fleet\"\n"));
        for prefix in PREFIXES {
            assert_eq!(
                shown.contains(prefix),
                own.contains(prefix),
                "{why}: {shown}"
            );
        }
        attached.reload(&shown);
        assert_eq!(attached.denied(), denied, "{why}");
    }
}

#[test]
fn only_shared_lists_get_prefixes_of_the_fleet() {
    need_kernel!();
    let [own, other, _] = PREFIXES;
    let attached = Attached::with(&shared(&[own].into()));
    let program = || number(&attached.hosts.status()["program_id"]);
    let before = program();
    for list in ["gold", "unknown"] {
        assert!(!attached.overlay(list, &[other].into()));
    }
    assert_eq!(program(), before);
    attached.overlay("deny", &[other].into());
    attached.hosts.run("set eth0 --rate 2M/s");
    assert_eq!(attached.denied(), [own, other]);
    // Without an agent, the fleet's prefixes cannot be changed.
    for (edit, words) in [
        ("add", "no agent runs here"),
        ("remove", "no agent runs here"),
        ("replace", "fleet 'edge'"),
    ] {
        let refused = attached.hosts.limiter(&["deny", edit, "eth0", other]);
        refused.expect_error(1, &[words, "nothing was changed"]);
    }
    assert_eq!(attached.denied(), [own, other]);
    let list = attached.hosts.limiter("deny list eth0").stderr;
    assert!(list.contains("without host and time: no agent"), "{list}");
    attached.hosts.run(&["tier", "add", "eth0", "gold", other]);
}

#[test]
fn attach_shares_a_limit_by_flags() {
    need_kernel!();
    let hosts = Hosts::new();
    let done = hosts.run("attach eth0 --rate 1/h --burst 5 --fleet edge");
    let note = "no agent runs here: start one by `limiter agent --store URL`";
    assert!(done.contains(note), "{done}");
    let shown = hosts.run("config show eth0");
    assert!(shown.contains("fleet = \"edge\"\n") && shown.contains("scope = \"fleet\"\n"));
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.2", 3), 3);
    let attach = "attach eth0 --rate 1/h --burst 5 --or-reload";
    for (fleet, expected) in [
        (" --fleet core", "fleet edge -> core"),
        ("", "fleet core -> none\neth0: scope fleet -> host"),
        (
            " --fleet edge",
            "fleet none -> edge\neth0: scope host -> fleet",
        ),
    ] {
        let done = hosts.run(&format!("{attach}{fleet}"));
        assert!(done.contains(expected), "{done}");
    }
    assert_eq!(traffic.passed("192.0.2.2", 9), 2, "spent tokens stay spent");
    let refused = hosts.limiter("set eth0 --rate 1mbit --burst 64kb");
    refused.expect_error(1, &["a fleet shares only rates in packets"]);
}
