//! The files of feeds' states: root's alone for any umask, through no link, and gone with their feed.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
    time::{Duration, SystemTime},
};

use limiter_kernel::state::pins;
use limiter_tests::{
    command::binary,
    eventually,
    feeds::{Feed, end},
    hosts::on,
    need_kernel,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::signal::Signal,
};

use super::{LIST, attached};

const FOLDER: &str = "/run/limiter/feeds";

fn mode(path: &str) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn umask_opens_nothing_and_no_link_is_followed() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "umask");
    let list = feed.write("list", LIST);
    let config = feed.configure(&format!("list = '{list}'"));
    let victim = feed.write("victim", "important\n");
    let outcome = on(&hosts.server, || {
        // A /run of its own, as after the boot.
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        let binary = binary().display();
        // It stays until it has been looked at.
        let line = format!("umask 0; exec timeout 60 {binary} feed {config}");
        let mut shell = Command::new("sh");
        let mut run = || shell.args(["-c", &line]).spawn().unwrap();
        let name = format!("{FOLDER}/{}.{}", pins::cookie().unwrap(), feed.name);
        let mut process = run();
        eventually("the state", || {
            fs::metadata(&name).is_ok_and(|file| file.len() > 0)
        });
        let first = ["/run/limiter", FOLDER, &*name].map(mode);
        let stop = |child: &mut std::process::Child| {
            let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
            nix::sys::signal::kill(id, Signal::SIGTERM).unwrap();
            child.wait().unwrap();
        };
        stop(&mut process);
        // Another user has placed a link while the folder was open.
        fs::set_permissions(FOLDER, Permissions::from_mode(0o777)).unwrap();
        let _ = fs::remove_file(&name);
        symlink(&victim, &name).unwrap();
        let mut two = Command::new("sh").args(["-c", &line]).spawn().unwrap();
        eventually("the state", || {
            fs::symlink_metadata(&name).is_ok_and(|file| file.is_file() && file.len() > 0)
        });
        let second = ["/run/limiter", FOLDER, &*name].map(mode);
        stop(&mut two);
        (first, second)
    });
    assert_eq!(outcome, ([0o700, 0o700, 0o600], [0o700, 0o700, 0o600]));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "important\n");
}

#[test]
fn state_of_a_feed_that_is_gone_does_not_stay() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "gone");
    let list = feed.write("list", LIST);
    feed.configure(&format!("list = '{list}'"));
    let cookie = on(&hosts.server, || pins::cookie().unwrap());
    let path = |name: &str| format!("{FOLDER}/{cookie}.{name}");
    // One that was told to end leaves no file.
    let process = feed.start(Duration::from_secs(60));
    let own = path(&feed.name);
    eventually("the state", || {
        fs::metadata(&own).is_ok_and(|file| file.len() > 0)
    });
    end(process, Signal::SIGTERM);
    eventually("the file is gone", || !fs::exists(&own).unwrap());
    // One that was killed is shown for a week. Another one that begins removes it then.
    let process = feed.start(Duration::from_secs(60));
    eventually("the state", || {
        fs::metadata(&own).is_ok_and(|file| file.len() > 0)
    });
    end(process, Signal::SIGKILL);
    let other = Feed::new(&hosts, "after");
    other.configure(&format!("list = '{list}'"));
    other.once("--once").expect(0);
    assert_eq!(feed.status()["running"], false);
    let file = File::options().write(true).open(&own).unwrap();
    let day = Duration::from_secs(24 * 3600);
    file.set_modified(SystemTime::now() - 6 * day).unwrap();
    other.once("--once").expect(0);
    assert!(fs::exists(&own).unwrap());
    file.set_modified(SystemTime::now() - 8 * day).unwrap();
    other.once("--once").expect(0);
    assert!(!fs::exists(&own).unwrap() && !fs::exists(path(&other.name)).unwrap());
}
