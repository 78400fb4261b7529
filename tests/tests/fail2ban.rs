//! Addresses that fail2ban bans are dropped by limiter, and pass again when fail2ban unbans them. Bans that others made
//! stay.

use std::{
    env, fs,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use limiter_tests::{
    command::binary,
    eventually,
    hosts::{Hosts, on},
    need, need_kernel, number,
    raw::Raw,
    traffic::udp,
};
use serde_json::Value;

const JAIL: &str =
    "[gate]\nenabled = true\nfilter = gate\nbackend = polling\nmaxretry = 2\nfindtime = 60\n";
const FILTER: &str = "[Definition]\nfailregex = ^refused <HOST>$\ndatepattern = {NONE}\n";

/// fail2ban with one jail on a log file, and the action of the packages.
struct Fail2ban {
    server: Child,
    folder: tempfile::TempDir,
}

impl Fail2ban {
    /// Starts fail2ban with an action of the packages and these settings of the jail.
    fn start(hosts: &Hosts, action: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let shown = |name: &str| path(name).display().to_string();
        let packaged = |name: &str| {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/fail2ban");
            fs::read_to_string(file.join(name)).unwrap()
        };
        for (name, text) in [
            ("action.d/limiter.conf", packaged("limiter.conf")),
            (
                "action.d/limiter-network.conf",
                packaged("limiter-network.conf"),
            ),
            ("filter.d/gate.conf", FILTER.to_owned()),
            ("log", String::new()),
            (
                "jail.conf",
                format!(
                    "{JAIL}{settings}\nlogpath = {}\naction = {action}[command={}]\n",
                    shown("log"),
                    binary().display()
                ),
            ),
            (
                "fail2ban.conf",
                format!(
                    "[Definition]\nloglevel = INFO\nlogtarget = {}\nsyslogsocket = auto\nsocket = {}\npidfile = {}\n\
                     dbfile = {}\ndbpurgeage = 1d\ndbmaxmatches = 10\n[Thread]\nstacksize = 0\n",
                    shown("out"),
                    shown("socket"),
                    shown("pid"),
                    shown("database")
                ),
            ),
        ] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        // It ends if the test is killed.
        let mut command = Command::new("timeout");
        command
            .args(["120", "fail2ban-server", "-f", "-c"])
            .arg(folder.path());
        command
            .env("PYTHONPATH", modules())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = on(&hosts.server, || command.spawn()).unwrap();
        let fail2ban = Self { server, folder };
        eventually("fail2ban watches the log", || {
            fs::read_to_string(fail2ban.folder.path().join("out"))
                .is_ok_and(|log| log.contains("Jail 'gate' started"))
        });
        fail2ban
    }

    fn refused(&self, source: &str) {
        let log = self.folder.path().join("log");
        let mut log = OpenOptions::new().append(true).open(log).unwrap();
        log.write_all(format!("refused {source}\nrefused {source}\n").as_bytes())
            .unwrap();
    }

    fn client(&self, words: &[&str]) {
        let mut command = Command::new("fail2ban-client");
        command
            .arg("-c")
            .arg(self.folder.path())
            .args(words)
            .env("PYTHONPATH", modules());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

impl Drop for Fail2ban {
    fn drop(&mut self) {
        self.client(&["stop"]);
        let _ = self.server.wait();
    }
}

/// The folder of its modules, if the package is unpacked and not installed.
fn modules() -> PathBuf {
    let path = env::var_os("PATH").unwrap();
    let folder = env::split_paths(&path).find(|folder| folder.join("fail2ban-server").is_file());
    folder.unwrap().join("../lib/python3/dist-packages")
}

#[test]
fn addresses_that_fail2ban_bans_are_dropped_until_it_unbans_them() {
    const TEST: &str = "addresses_that_fail2ban_bans_are_dropped_until_it_unbans_them";
    need_kernel!();
    if !need::program(TEST, "fail2ban-server") {
        return;
    }
    let hosts = Hosts::of_both_families();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    // A ban without end, which fail2ban must not shorten or end.
    hosts.run("ban eth0 203.0.113.8 --reason mine");
    // One of an earlier version of the action, which fail2ban does end.
    hosts.run("ban eth0 203.0.113.8 --origin fail2ban");
    let fail2ban = Fail2ban::start(&hosts, "limiter", "bantime = 3600");
    let is_banned = |source: &str| {
        let packets = || {
            let status = hosts.status();
            [&status["seen"], &status["drops"]["ban"]].map(|count| number(&count["packets"]))
        };
        let (wire, [seen, banned]) = (Raw::open(&hosts.client), packets());
        let frame = udp(&hosts, source.parse().unwrap(), 9);
        (0..3).for_each(|_| wire.send(&frame));
        // The client's own neighbour discovery is seen too.
        eventually("all packets are seen", || packets()[0] >= seen + 3);
        packets()[1] == banned + 3
    };
    for source in ["203.0.113.7", "2001:db8::7"] {
        assert!(!is_banned(source), "{source}");
        let begin = Instant::now();
        fail2ban.refused(source);
        eventually("the ban", || is_banned(source));
        println!(
            "{source}: {:.1?} from the line in the log to the first drop",
            begin.elapsed()
        );
    }
    fail2ban.refused("203.0.113.8");
    eventually("the ban beside those of others", || {
        left(&hosts, "203.0.113.8").is_some()
    });
    let bans = hosts.json("bans eth0 --json");
    // The mark of the jail is counted apart.
    assert_eq!(
        (&bans["count"], &bans["marks"]),
        (&5.into(), &1.into()),
        "{bans}"
    );
    let bans = bans["bans"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or("no end").to_owned();
    let shown: Vec<_> = bans
        .map(|ban| {
            let end = if ban["left_seconds"].is_null() {
                "no end"
            } else {
                "ends"
            };
            [&ban["prefix"], &ban["origin"], &ban["reason"]]
                .map(text)
                .join("|")
                + "|"
                + end
        })
        .collect();
    let wanted = [
        "203.0.113.7|fail2ban:gate|gate|ends",
        "203.0.113.8|fail2ban||no end",
        "203.0.113.8|fail2ban:gate|gate|ends",
        "203.0.113.8|hand|mine|no end",
        "2001:db8::7|fail2ban:gate|gate|ends",
    ];
    assert_eq!(shown, wanted);
    fail2ban.client(&["set", "gate", "unbanip", "203.0.113.8"]);
    eventually("the ban by hand alone is left", || {
        let bans = hosts.json("bans eth0 --json")["bans"].clone();
        let of_prefix = |ban: &&Value| ban["prefix"] == "203.0.113.8";
        bans.as_array().unwrap().iter().filter(of_prefix).count() == 1
    });
    fail2ban.client(&["unban", "--all"]);
    eventually("the end of the bans", || {
        !is_banned("203.0.113.7") && !is_banned("2001:db8::7")
    });
    assert!(is_banned("203.0.113.8"));
}

/// The ban of a prefix by a jail, with the seconds that are left.
fn left(hosts: &Hosts, prefix: &str) -> Option<f64> {
    let bans = hosts.json("bans eth0 --origin fail2ban:gate --json");
    let mut bans = bans["bans"].as_array().unwrap().iter();
    bans.find(|ban| ban["prefix"] == prefix)?["left_seconds"].as_f64()
}

#[test]
fn source_that_comes_again_is_banned_for_longer() {
    const TEST: &str = "source_that_comes_again_is_banned_for_longer";
    need_kernel!();
    if !need::program(TEST, "fail2ban-server") {
        return;
    }
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let settings = "bantime = 2\nbantime.increment = true\nbantime.multipliers = 1 100";
    let fail2ban = Fail2ban::start(&hosts, "limiter", settings);
    fail2ban.refused("203.0.113.7");
    eventually("the ban", || left(&hosts, "203.0.113.7").is_some());
    eventually("its end", || left(&hosts, "203.0.113.7").is_none());
    let log = || fs::read_to_string(fail2ban.folder.path().join("out")).unwrap();
    eventually("fail2ban knows", || log().contains("Unban 203.0.113.7"));
    fail2ban.refused("203.0.113.7");
    eventually("the longer ban", || {
        left(&hosts, "203.0.113.7").is_some_and(|seconds| seconds > 60.0)
    });
}

/// fail2ban looks for its mark no sooner than three seconds after a ban.
#[test]
fn ban_returns_after_limiter_was_detached_and_attached() {
    const TEST: &str = "ban_returns_after_limiter_was_detached_and_attached";
    need_kernel!();
    if !need::program(TEST, "fail2ban-server") {
        return;
    }
    let hosts = Hosts::of_both_families();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let fail2ban = Fail2ban::start(&hosts, "limiter-network", "bantime = 3600");
    fail2ban.refused("2001:db8:7::7");
    eventually("the ban", || left(&hosts, "2001:db8:7::/64").is_some());
    hosts.run("detach eth0");
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    eventually("the ban returns", || {
        fail2ban.refused("2001:db8:7::7");
        std::thread::sleep(std::time::Duration::from_millis(900));
        left(&hosts, "2001:db8:7::/64").is_some()
    });
}

#[test]
fn jails_neither_shorten_nor_end_the_bans_of_each_other() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let long = "a-jail-whose-name-is-longer-than-an-origin-may-be";
    let (first, second) = (format!("fail2ban:{long}-1"), format!("fail2ban:{long}-2"));
    hosts.run(&format!("ban eth0 192.0.2.7 --for 1d --origin {first}"));
    hosts.run(&format!("ban eth0 192.0.2.7 --for 1m --origin {second}"));
    hosts.run(&format!("unban eth0 192.0.2.7 --origin {second}"));
    hosts.run(&format!("ban eth0 192.0.2.8 --origin {second}"));
    hosts.run(&format!("unban eth0 --all --origin {second}"));
    let bans = hosts.json(&format!("bans eth0 --origin {first} --json"));
    let bans = bans["bans"].as_array().unwrap();
    assert_eq!(bans.len(), 1, "{bans:?}");
    let left = bans[0]["left_seconds"].as_f64().unwrap();
    assert!(left > 86_000.0, "{bans:?}");
    let all = hosts.json("bans eth0 --json");
    assert_eq!(all["bans"].as_array().unwrap().len(), 1, "{all}");
    hosts.run("unban eth0 --all");
    let all = hosts.json("bans eth0 --json");
    assert_eq!(all["bans"], serde_json::json!([]), "{all}");
}

/// The longest ban that ends lasts ten years, and a refused prefix is an error in the log.
#[test]
fn ban_of_twenty_years_is_made_and_a_refused_one_is_in_the_log() {
    const TEST: &str = "ban_of_twenty_years_is_made_and_a_refused_one_is_in_the_log";
    need_kernel!();
    if !need::program(TEST, "fail2ban-server") {
        return;
    }
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    let fail2ban = Fail2ban::start(&hosts, "limiter-network[ipv6_length=8]", "bantime = 20y");
    fail2ban.refused("203.0.113.7");
    eventually("the ban", || {
        left(&hosts, "203.0.113.7").is_some_and(|seconds| seconds > 315e6)
    });
    fail2ban.refused("2001:db8:7::7");
    eventually("the error", || {
        let log = fs::read_to_string(fail2ban.folder.path().join("out")).unwrap();
        log.contains("2000::/8 is too much of the Internet to ban") && log.contains("ERROR")
    });
}
