//! No other user can open any file that limiter makes.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use limiter_kernel::program::maps::{LIST_MAPS, MAPS};
use limiter_tests::{
    hosts::{Hosts, on},
    need_kernel,
    watcher::Watcher,
};
use nix::sys::stat::{Mode, umask};

use super::unprivileged::setpriv;

/// A folder and everything below it.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn pins_are_private_under_any_umask() {
    need_kernel!();
    let hosts = Hosts::new();
    // Sets the most permissive umask for all processes that the test starts.
    let before = umask(Mode::empty());
    let attached = hosts.limiter("attach eth0 --rate 5/s --deny 192.0.2.9");
    let reloaded = hosts.limiter("set eth0 --rate 7/s");
    let watcher = Watcher::start(&hosts, &[]);
    umask(before);
    attached.expect(0);
    reloaded.expect(0);
    let pins = hosts.pins();
    let all = tree(&pins);
    let maps = MAPS.len() + LIST_MAPS.len();
    assert!(all.len() > maps && pins.join("watch0").exists(), "{all:?}");
    let above = pins.ancestors().skip(1).take(2).map(Path::to_owned);
    for path in all.iter().cloned().chain(above) {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(
            (
                metadata.permissions().mode() & 0o7777,
                metadata.uid(),
                metadata.gid()
            ),
            (wanted, 0, 0),
            "{}",
            path.display()
        );
    }
    // Another user can neither open nor list any of the files.
    let script = "for path; do test -e \"$path\" && echo \"$path\"; (: <\"$path\") 2>/dev/null && echo \"$path\"; done; true";
    let mut unprivileged = setpriv(65_534, "-all");
    unprivileged.args(["sh", "-c", script, "sh"]).args(&all);
    let output = on(&hosts.server, || unprivileged.output()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    drop(watcher);
}
