//! Prefixes of the fleet and of the host's own configuration stay on a list independently of each other.

use std::{collections::BTreeMap, fs};

use limiter_tests::{files::Folder, hosts::Hosts, need_kernel, number, traffic::Traffic};
use limiter_user::{
    config::lists::{Prefixes, prefix},
    kernel::ops::set,
};

/// Sources on the host's own list, on the fleet's list, and on both.
const OWN: &str = "203.0.113.1";
const FLEET: &str = "203.0.113.2";
const BOTH: &str = "203.0.113.3";

fn text(deny: &str) -> String {
    format!(
        "fleet = \"edge\"\n[lists]\ndeny = {deny}\ngold = []\n[[limit]]\nname = \"all\"\nrate = \"1M/s\"\nscope = \"fleet\"\n"
    )
}

fn shared(own: &[&str]) -> String {
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
        let file = folder.write("limiter.toml", text);
        hosts
            .limiter(&["attach", "eth0", "--config", &file])
            .expect(0);
        Self {
            hosts,
            _folder: folder,
            file,
        }
    }

    fn says(&self, arguments: &[&str]) -> String {
        let done = self.hosts.limiter(arguments);
        done.expect(0);
        done.stdout + &done.stderr
    }

    fn reload(&self, text: &str) {
        fs::write(&self.file, text).unwrap();
        self.says(&["reload", "eth0"]);
    }

    /// Sets the fleet's prefixes on a list. Returns false if they were unchanged.
    fn overlay(&self, list: &str, prefixes: &[&str]) -> bool {
        let prefixes: Prefixes = prefixes.iter().map(|text| prefix(text).unwrap()).collect();
        let lists = BTreeMap::from([(list.to_owned(), prefixes)]);
        let namespace = &self.hosts.server.namespace;
        let overlay = || async { set::overlay("eth0", lists).await };
        let done = namespace.block_on(overlay).unwrap();
        done.unwrap().is_some()
    }

    fn denied(&self) -> Vec<String> {
        let list = self.hosts.limiter(&["deny", "list", "eth0"]);
        list.expect(0);
        list.stdout.lines().map(str::to_owned).collect()
    }

    fn shown(&self) -> String {
        let show = self.hosts.limiter(&["config", "show", "eth0"]);
        show.expect(0);
        show.stdout
    }

    fn program(&self) -> u64 {
        number(&self.hosts.status()["program_id"])
    }
}

#[test]
fn fleet_prefix_is_denied_until_the_fleet_removes_it() {
    need_kernel!();
    let attached = Attached::with(&shared(&[OWN, BOTH]));
    let traffic = Traffic::new(&attached.hosts);
    assert_eq!(traffic.passed(FLEET, 3), 3);
    assert!(attached.overlay("deny", &[BOTH, FLEET]));
    assert_eq!(attached.denied(), [OWN, FLEET, BOTH]);
    for (source, by) in [(OWN, None), (FLEET, Some("fleet")), (BOTH, None)] {
        let check = attached.hosts.json(&["check", "eth0", source, "--json"]);
        assert_eq!(check["lists"][0]["by"].as_str(), by, "{check}");
    }
    for source in [OWN, FLEET, BOTH] {
        assert_eq!(traffic.passed(source, 3), 0, "{source}");
    }
    assert_eq!(traffic.passed("203.0.113.4", 3), 3);

    // Repeating it changes nothing. Other lists get no prefixes of the fleet.
    let program = attached.program();
    assert!(!attached.overlay("deny", &[FLEET, BOTH]));
    assert!(!attached.overlay("gold", &["203.0.113.4"]));
    assert!(!attached.overlay("unknown", &["203.0.113.4"]));
    assert_eq!(attached.program(), program);

    // Reloads of the file, unchanged and changed, do not affect the fleet's prefixes.
    for own in [&[OWN, BOTH][..], &[], &[OWN]] {
        attached.reload(&shared(own));
        assert_eq!(traffic.passed(FLEET, 3), 0, "with {own:?}");
    }
    assert_eq!(traffic.passed(BOTH, 3), 0, "not on the own list");
    attached.says(&["set", "eth0", "--rate", "2M/s"]);
    assert_eq!(attached.denied(), [OWN, FLEET, BOTH]);

    // Only the removed prefixes are gone.
    assert!(attached.overlay("deny", &[BOTH]));
    assert_eq!(attached.denied(), [OWN, BOTH]);
    assert_eq!(traffic.passed(FLEET, 3), 3);
    assert!(attached.overlay("deny", &[]));
    assert_eq!(attached.denied(), [OWN]);
    assert_eq!(traffic.passed(BOTH, 3), 3, "no longer in the file");
}

#[test]
fn prefix_of_host_and_fleet_stays_until_both_remove_it() {
    need_kernel!();
    let attached = Attached::with(&shared(&[OWN, BOTH]));
    attached.overlay("deny", &[BOTH, FLEET]);
    // The fleet removes the prefix, and then the host does.
    attached.overlay("deny", &[FLEET]);
    assert_eq!(attached.denied(), [OWN, FLEET, BOTH]);
    attached.reload(&shared(&[OWN]));
    assert_eq!(attached.denied(), [OWN, FLEET]);
    // The host adds a prefix of the fleet, and removes it before the fleet does.
    attached.reload(&shared(&[OWN, FLEET]));
    attached.reload(&shared(&[OWN]));
    assert_eq!(attached.denied(), [OWN, FLEET]);
    // The host adds a prefix of the fleet, and the fleet removes it before the host does.
    attached.reload(&shared(&[OWN, FLEET]));
    assert!(attached.overlay("deny", &[]));
    assert_eq!(attached.denied(), [OWN, FLEET]);
    attached.reload(&shared(&[OWN]));
    assert_eq!(attached.denied(), [OWN]);
}

#[test]
fn fleet_lists_stay_unchanged_without_an_agent() {
    need_kernel!();
    let attached = Attached::with(&shared(&[OWN]));
    attached.overlay("deny", &[FLEET]);
    for edit in ["add", "remove"] {
        let refused = attached.hosts.limiter(&["deny", edit, "eth0", FLEET]);
        refused.expect_error(1, &["no agent runs here", "nothing was changed"]);
    }
    let refused = attached.hosts.limiter(&["deny", "replace", "eth0", FLEET]);
    refused.expect_error(1, &["fleet 'edge'", "nothing was changed"]);
    assert_eq!(attached.denied(), [OWN, FLEET]);
    let list = attached.hosts.limiter(&["deny", "list", "eth0"]);
    assert!(
        list.stderr.contains("without host and time: no agent"),
        "{list:?}"
    );
    // Lists that are not shared have only the host's own prefixes.
    attached.says(&["tier", "add", "eth0", "gold", FLEET]);
}

#[test]
fn config_show_prints_only_the_hosts_own_prefixes_and_reads_back() {
    need_kernel!();
    let attached = Attached::with(&shared(&[OWN]));
    let before = attached.shown();
    assert!(before.contains("fleet = \"edge\"\n") && before.contains("scope = \"fleet\"\n"));
    attached.overlay("deny", &[FLEET]);
    assert_eq!(attached.shown(), before);
    attached.reload(&before);
    assert_eq!(attached.shown(), before);
    assert_eq!(attached.denied(), [OWN, FLEET]);
    // A list that is no longer shared, or is shared by another fleet, keeps the host's own prefixes.
    for other in [
        text(&format!("[\"{OWN}\"]")),
        shared(&[OWN]).replace("edge", "core"),
    ] {
        attached.reload(&other);
        assert_eq!(attached.denied(), [OWN], "{other}");
        attached.reload(&shared(&[OWN]));
        assert_eq!(attached.denied(), [OWN], "the fleet's prefix");
        assert!(attached.overlay("deny", &[FLEET]));
    }
}

#[test]
fn attach_shares_a_limit_by_flags() {
    need_kernel!();
    let hosts = Hosts::new();
    let done = hosts.limiter(&[
        "attach", "eth0", "--rate", "1/h", "--burst", "5", "--fleet", "edge",
    ]);
    done.expect(0);
    assert!(
        done.stdout
            .contains("Fleet 'edge' shares nothing with this host until an agent runs"),
        "{done:?}"
    );
    let shown = || hosts.limiter(&["config", "show", "eth0"]).stdout;
    assert!(shown().contains("fleet = \"edge\"\n") && shown().contains("scope = \"fleet\"\n"));
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
        assert!(done.contains(expected), "{done:?}");
    }
    assert_eq!(traffic.passed("192.0.2.2", 9), 2, "spent tokens stay spent");
    let refused = hosts.limiter(&["set", "eth0", "--rate", "1mbit", "--burst", "64kb"]);
    refused.expect_error(1, &["a fleet shares only rates in packets"]);
}
