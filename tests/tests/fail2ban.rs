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

const JAIL: &str = "[gate]\nenabled = true\nfilter = gate\nbackend = polling\nmaxretry = 2\nfindtime = 60\nbantime = 3600\n";
const FILTER: &str = "[Definition]\nfailregex = ^refused <HOST>$\ndatepattern = {NONE}\n";

/// fail2ban with one jail on a log file, and the action of the packages.
struct Fail2ban {
    server: Child,
    folder: tempfile::TempDir,
}

impl Fail2ban {
    fn start(hosts: &Hosts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let shown = |name: &str| path(name).display().to_string();
        let action =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/fail2ban/limiter.conf");
        for (name, text) in [
            ("action.d/limiter.conf", fs::read_to_string(action).unwrap()),
            ("filter.d/gate.conf", FILTER.to_owned()),
            ("log", String::new()),
            (
                "jail.conf",
                format!(
                    "{JAIL}logpath = {}\naction = limiter[command={}]\n",
                    shown("log"),
                    binary().display()
                ),
            ),
            (
                "fail2ban.conf",
                format!(
                    "[Definition]\nloglevel = INFO\nlogtarget = {}\nsyslogsocket = auto\nsocket = {}\npidfile = {}\n\
                     dbfile = None\ndbpurgeage = 1d\ndbmaxmatches = 10\n[Thread]\nstacksize = 0\n",
                    shown("out"),
                    shown("socket"),
                    shown("pid")
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
    // Nor one that lasts as long.
    hosts.run("ban eth0 203.0.113.8 --origin fail2ban");
    let fail2ban = Fail2ban::start(&hosts);
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
    eventually("fail2ban has banned all", || {
        let log = fs::read_to_string(fail2ban.folder.path().join("out")).unwrap();
        log.contains("Ban 203.0.113.8")
    });
    let bans = hosts.json("bans eth0 --json");
    let shown: Vec<_> = bans["bans"].as_array().unwrap().iter().collect();
    assert_eq!(shown.len(), 3, "{bans}");
    for ban in shown {
        let mine = ban["prefix"] == "203.0.113.8";
        let wanted = if mine {
            ["hand", "mine"]
        } else {
            ["fail2ban", "gate"]
        };
        assert_eq!([&ban["origin"], &ban["reason"]], wanted, "{ban}");
        assert_eq!(ban["left_seconds"].is_null(), mine, "{ban}");
    }
    fail2ban.client(&["unban", "--all"]);
    eventually("the end of the bans", || {
        !is_banned("203.0.113.7") && !is_banned("2001:db8::7")
    });
    assert!(is_banned("203.0.113.8"));
}
