//! Checks the objects in the kernel, and its messages.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use aya::{maps::MapData, programs::loaded_programs};

use crate::{eventually, hosts::Hosts};

/// The attachment's pins and programs at the beginning.
#[derive(Debug)]
pub struct Kernel {
    folder: PathBuf,
    pins: BTreeSet<String>,
    table: u32,
}

impl Kernel {
    pub fn new(hosts: &Hosts) -> Self {
        let folder = hosts.pins();
        let table = MapData::from_pin(folder.join("SETS")).unwrap();
        let table = table.info().unwrap().id();
        let pins = names(&folder);
        let pins = pins
            .into_iter()
            .filter(|name| !is_generation(name))
            .collect();
        Self {
            folder,
            pins,
            table,
        }
    }

    /// Panics unless the attachment has one generation with the usual pins, and one program.
    pub fn expect_nothing_left_over(&mut self, hosts: &Hosts) {
        assert_eq!(hosts.pins(), self.folder);
        let now = names(&self.folder);
        let (generations, mut others): (BTreeSet<_>, BTreeSet<_>) =
            now.into_iter().partition(|name| is_generation(name));
        // The first watcher makes this pin.
        others.remove("watch");
        self.pins.remove("watch");
        assert_eq!(others, self.pins, "pins");
        assert_eq!(generations.len(), 1, "generations: {generations:?}");
        let of_it = names(&self.folder.join(generations.first().unwrap()));
        let known = ["program", "record", "LISTED_IPV4", "LISTED_IPV6"];
        let known = BTreeSet::from(known.map(String::from));
        assert_eq!(of_it, known, "pins of the generation");
        // A concurrent reader may hold an older program.
        eventually("one program uses the table", || self.programs() == 1);
    }

    /// Number of programs that use the attachment's table.
    fn programs(&self) -> usize {
        let programs = loaded_programs().filter_map(Result::ok);
        let over_it = programs.filter(|program| {
            let maps = program.map_ids().ok().flatten();
            maps.is_some_and(|maps| maps.contains(&self.table))
        });
        over_it.count()
    }
}

fn names(folder: &PathBuf) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn is_generation(name: &str) -> bool {
    let number = name.strip_prefix('g');
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Complaints in the kernel's log; none if this process may not read the log.
pub fn complaints() -> Option<Vec<String>> {
    const WORDS: [&str; 8] = [
        "BUG: ",
        "WARNING: ",
        "Call Trace",
        "UBSAN",
        "general protection",
        "soft lockup",
        "refcount_t",
        "unregister_netdevice: waiting",
    ];
    let output = Command::new("dmesg").output().ok()?;
    let log = String::from_utf8_lossy(&output.stdout);
    let lines = log
        .lines()
        .filter(|line| WORDS.iter().any(|word| line.contains(word)));
    output
        .status
        .success()
        .then(|| lines.map(str::to_owned).collect())
}

/// Panics if there are new complaints since `before`.
pub fn expect_no_more(before: &Option<Vec<String>>) {
    let known = before.as_deref().unwrap_or_default();
    let mut now = complaints().unwrap_or_default();
    now.retain(|line| !known.contains(line));
    assert_eq!(now, Vec::<String>::new(), "kernel log");
}
