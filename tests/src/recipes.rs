//! Reads the cookbook's recipes and other code blocks of documents, and runs them on a host.

use std::net::{IpAddr, SocketAddr};

use limiter_user::cli::PRESETS;

use crate::testbed::Address;

use crate::{
    command::{Outcome, prepared},
    files::Folder,
    hosts::{Hosts, on},
    number,
    packet::{Ends, Segment},
    raw::Raw,
};

/// The text of docs/cookbook.md.
pub const COOKBOOK: &str = include_str!("../../docs/cookbook.md");

/// The cookbook's code blocks in `language`, each with its heading.
pub fn blocks(language: &str) -> Vec<(&'static str, String)> {
    blocks_of(COOKBOOK, language)
}

/// The code blocks of another document.
pub fn blocks_of(document: &'static str, language: &str) -> Vec<(&'static str, String)> {
    let fence = format!("```{language}");
    let (mut heading, mut blocks, mut inside) = ("", Vec::new(), false);
    for line in document.lines() {
        match line.strip_prefix("## ") {
            Some(title) if !inside => heading = title,
            _ if line == fence => {
                inside = true;
                blocks.push((heading, String::new()));
            }
            _ if line == "```" => inside = false,
            _ if inside => blocks.last_mut().unwrap().1 += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// The configuration file of this name.
///
/// # Panics
/// If there is no such file.
pub fn recipe(named: &str) -> &'static str {
    let found = PRESETS.iter().find(|(name, _)| *name == named);
    found.unwrap_or_else(|| panic!("no recipe '{named}'")).1
}

/// A host on which the commands of a document run.
#[derive(Debug)]
pub struct Site {
    /// The host is the server.
    pub hosts: Hosts,
    /// Sends packets from the client.
    pub wire: Raw,
    /// The folder of the commands.
    pub folder: Folder,
}

impl Site {
    /// A host that is on no list of a recipe.
    pub fn unlisted() -> Self {
        let address = |text: &str| Address(text.parse().unwrap(), 24);
        Self::of(Hosts::with(
            &[address("198.18.1.1")],
            &[address("198.18.1.2")],
        ))
    }

    /// The server of these hosts.
    pub fn of(hosts: Hosts) -> Self {
        Self {
            wire: Raw::open(&hosts.client),
            hosts,
            folder: Folder::new(),
        }
    }

    /// Runs a line of the document in the folder.
    pub fn limiter(&self, line: &str) -> Outcome {
        let words: Vec<_> = line.split_whitespace().collect();
        let arguments = words.strip_prefix(&["limiter"]).expect(line);
        let run = || {
            let folder = self.folder.path("");
            prepared(arguments).current_dir(folder).output()
        };
        Outcome::of(line.to_owned(), on(&self.hosts.server, run).unwrap())
    }

    /// Addresses from `source` to a host behind the server. The host does not exist, so that no answers are sent.
    pub fn ends(&self, source: &str, from: u16, destination: u16) -> Ends {
        let source: IpAddr = source.parse().unwrap();
        let target = if source.is_ipv4() {
            "198.18.0.1"
        } else {
            "2001:db8:ffff::1"
        };
        Ends {
            macs: (self.hosts.client.mac, self.hosts.server.mac),
            from: SocketAddr::new(source, from),
            to: SocketAddr::new(target.parse().unwrap(), destination),
        }
    }

    /// A segment that opens a connection.
    pub fn syn(&self, source: &str, port: u16) -> Vec<u8> {
        self.ends(source, 40_000, port).tcp(Segment::Syn)
    }

    /// Number of packets that limiter has seen, and has passed.
    pub fn counted(&self) -> [u64; 2] {
        let status = self.hosts.status();
        ["seen", "passed"].map(|verdict| number(&status[verdict]["packets"]))
    }
}
