//! Bans that outlive `detach`, another layout and a restart, if the settings say so.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use limiter_tests::{
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel,
};
use serde_json::{Value, json};

use super::{FAST, count, is_banned};

/// The file of kept bans, which goes with the test.
struct File(PathBuf);

impl File {
    /// The file of eth0 in the network namespace of these hosts: it is named like the folder of pins.
    fn of(hosts: &Hosts) -> Self {
        let pins = hosts.pins();
        let name = pins.file_name().unwrap().to_str().unwrap();
        Self(format!("/run/limiter/bans/{name}.json").into())
    }

    fn read(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(&self.0).unwrap()).unwrap()
    }

    fn write(&self, content: &Value) {
        fs::write(&self.0, content.to_string()).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

#[test]
fn kept_bans_come_back_with_the_rest_of_their_time() {
    need_kernel!();
    let hosts = Hosts::new();
    let file = File::of(&hosts);
    hosts.run(&format!("{FAST} --keep-bans"));
    hosts.run("ban eth0 192.0.2.7 --reason mine");
    hosts.run("ban eth0 198.51.100.0/24 --for 1h --origin script");
    // These make their bans again.
    hosts.run("ban eth0 192.0.2.8 --origin fail2ban:sshd");
    hosts.run("ban eth0 192.0.2.7 --origin fail2ban:sshd");
    let metadata = fs::symlink_metadata(&file.0).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o600, 0));
    let folder = fs::symlink_metadata(file.0.parent().unwrap()).unwrap();
    assert_eq!(folder.mode() & 0o777, 0o700);

    let detached = hosts.run("detach eth0");
    assert_eq!(detached, "eth0: detached; 2 bans kept\n");
    // One has ended meanwhile, and the host was off for a while.
    let mut content = file.read();
    let mut over = content["bans"][1].clone();
    over["prefix"] = json!("192.0.2.9");
    over["until"] = json!(now() - 5);
    content["bans"].as_array_mut().unwrap().push(over);
    content["written"] = json!(now() - 600);
    content["bans"][1]["until"] = json!(now() + 60);
    file.write(&content);

    let attached = hosts.limiter(&format!("{FAST} --keep-bans"));
    let words = "2 are in force again, 1 is over meanwhile";
    assert!(attached.stderr.contains(words), "{attached:?}");
    assert!(is_banned(&hosts, "192.0.2.7"));
    assert!(is_banned(&hosts, "198.51.100.7"));
    assert!(!is_banned(&hosts, "192.0.2.8"));
    let bans = hosts.json("bans eth0 --json")["bans"].clone();
    assert_eq!(bans[0]["reason"], "mine", "{bans}");
    assert!(bans[0]["left_seconds"].is_null(), "{bans}");
    let left = bans[1]["left_seconds"].as_f64().unwrap();
    assert!((1.0..=61.0).contains(&left), "{bans}");
    assert_eq!(bans.as_array().unwrap().len(), 2, "{bans}");

    // A ban that was ended does not come back.
    hosts.run("unban eth0 192.0.2.7");
    hosts.run("unban eth0 --all");
    assert!(!file.0.exists(), "no bans, no file");
    hosts.run("detach eth0");
    hosts.run(&format!("{FAST} --keep-bans"));
    assert_eq!(count(&hosts), 0);
}

/// A clock that is not set yet, or was set back, gives no ban more time than it had.
#[test]
fn clock_that_is_behind_gives_no_ban_more_time() {
    need_kernel!();
    let hosts = Hosts::new();
    let file = File::of(&hosts);
    hosts.run(&format!("{FAST} --keep-bans"));
    hosts.run("ban eth0 192.0.2.7 --for 1h");
    hosts.run("detach eth0");
    let mut content = file.read();
    let year = 31_536_000;
    content["written"] = json!(now() + year);
    content["bans"][0]["until"] = json!(now() + year + 100);
    file.write(&content);
    hosts.limiter(&format!("{FAST} --keep-bans")).expect(0);
    let left = hosts.json("bans eth0 --json")["bans"][0]["left_seconds"].clone();
    assert!(left.as_f64().unwrap() <= 100.0, "{left}");
    // Nor does the next file go back in time.
    hosts.run("ban eth0 192.0.2.8 --for 1h");
    let content = file.read();
    assert!(
        content["written"].as_u64().unwrap() >= now() + year - 60,
        "{content}"
    );
}

#[test]
fn bans_are_kept_only_if_the_settings_say_so() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let file = File::of(&hosts);
    hosts.run(FAST);
    hosts.run("ban eth0 192.0.2.7");
    assert!(!file.0.exists());
    // Bans that were there are kept once the configuration says so.
    let text =
        "interfaces = [\"eth0\"]\nkeep_bans = true\n[[limit]]\nname = \"one\"\nrate = \"1M/s\"\n";
    let keeping = folder.write("limiter.toml", at_driver(text));
    let reloaded = hosts.run(&format!("reload eth0 --config {keeping}"));
    assert!(reloaded.contains("keep_bans off -> on"), "{reloaded}");
    assert_eq!(file.read()["bans"].as_array().unwrap().len(), 1);
    assert!(hosts.run("config show eth0").contains("keep_bans = true\n"));
    hosts.run("detach eth0");
    // Without it, they stay where they are.
    let attached = hosts.limiter(FAST);
    let words = "1 ban from before is in ";
    assert!(attached.stderr.contains(words), "{attached:?}");
    assert_eq!(count(&hosts), 0);
    hosts.run("detach eth0");
    hosts
        .limiter(&format!("attach --config {keeping}"))
        .expect(0);
    assert_eq!(count(&hosts), 1);
    let text = text.replace("true", "false");
    let other = folder.write("other.toml", at_driver(text));
    hosts.run(&format!("reload eth0 --config {other}"));
    assert_eq!(count(&hosts), 1);
    assert!(!file.0.exists());
}

#[test]
fn file_that_others_could_have_made_is_neither_followed_nor_believed() {
    need_kernel!();
    let hosts = Hosts::new();
    let (file, folder) = (File::of(&hosts), Folder::new());
    hosts.run(&format!("{FAST} --keep-bans"));
    hosts.run("ban eth0 192.0.2.7");
    let victim = folder.write("victim", "untouched");
    fs::remove_file(&file.0).unwrap();
    symlink(&victim, &file.0).unwrap();
    hosts.run("ban eth0 192.0.2.8");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    assert!(fs::symlink_metadata(&file.0).unwrap().is_file());
    hosts.run("detach eth0");
    for content in [
        "",
        "{",
        "{\"version\":1}",
        "{\"version\":9,\"interface\":\"eth0\",\"written\":1,\"bans\":[]}",
    ] {
        fs::write(&file.0, content).unwrap();
        let attached = hosts.limiter(&format!("{FAST} --keep-bans"));
        attached.expect(0);
        assert!(
            attached.stderr.contains("WARNING: bans from before"),
            "{attached:?}"
        );
        hosts.run("detach eth0");
    }
    let entry = |prefix: &str, origin: &str| json!({"prefix": prefix, "until": null, "made": 1, "origin": origin, "reason": ""});
    file.write(
        &json!({"version": 1, "interface": "eth0", "written": 1, "bans": [
            entry("0.0.0.0/0", "hand"), entry("192.0.2.1", "fleet\n"), entry("192.0.2.2", "hand")
        ]}),
    );
    let attached = hosts.limiter(&format!("{FAST} --keep-bans"));
    let words = "1 is in force again, 2 are left out, because they are no valid bans";
    assert!(attached.stderr.contains(words), "{attached:?}");
    assert_eq!(count(&hosts), 1);
}

/// The room may be smaller than before.
#[test]
fn kept_bans_without_room_are_counted() {
    need_kernel!();
    let hosts = Hosts::new();
    let _file = File::of(&hosts);
    hosts.run(&format!("{FAST} --keep-bans"));
    hosts.run("ban eth0 192.0.2.1 192.0.2.2 --for 1h");
    hosts.run("ban eth0 192.0.2.3");
    hosts.run("detach eth0");
    let attached = hosts.limiter(&format!("{FAST} --keep-bans --max-bans 2"));
    let words = "2 are in force again, 1 is left out without room (--max-bans)";
    assert!(attached.stderr.contains(words), "{attached:?}");
    assert!(is_banned(&hosts, "192.0.2.3"), "the latest end comes first");
    assert_eq!(count(&hosts), 2);
}
