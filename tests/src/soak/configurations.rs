//! Defines the configurations, which are applied in turn. All have one limit in common, with a bound that must hold
//! through all changes.

use super::{BURST, RATE, frames::DENIED};

#[derive(Debug)]
pub struct Configuration {
    pub name: &'static str,
    /// Lines before the tables.
    top: &'static str,
    lists: &'static str,
    limits: &'static str,
    /// Another limit besides the common one.
    pub other: Option<&'static str>,
}

/// All configurations. The first takes the fast path: one limit, no lists.
pub const CONFIGURATIONS: [Configuration; 4] = [
    Configuration {
        name: "plain",
        top: "",
        lists: "",
        limits: "",
        other: None,
    },
    Configuration {
        name: "several limits and a tier",
        top: "malformed = \"pass\"",
        lists: "allow = [\"192.0.2.128/25\"]\npartners = [\"203.0.113.210\"]",
        limits: r#"
[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "20/s"
burst = 40
[[limit]]
name = "partners"
match = { source = "partners" }
key = "/24,/48"
rate = "1mbit"
burst = "128kb"
[[limit]]
name = "fragments"
match = { fragments = true }
rate = "5/s"
cost = 2
"#,
        other: Some("dns"),
    },
    Configuration {
        name: "shadow",
        top: "",
        lists: "",
        limits: r#"
[[limit]]
name = "subnet"
key = "/24,/48"
rate = "1k/s"
shadow = true
[[limit]]
name = "all-together"
key = "interface"
rate = "5k/s"
shadow = true
"#,
        other: Some("subnet"),
    },
    Configuration {
        name: "established and control exempt, and a window",
        top: "exempt = [\"established\", \"control\"]",
        lists: "",
        limits: r#"
[[limit]]
name = "window"
match = { protocol = "udp", destination_port = "50-60" }
key = "/32,/128,destination_port"
rate = "20/s"
algorithm = "fixed-window"
"#,
        other: Some("window"),
    },
];

impl Configuration {
    /// The configuration file, with the denied source on its list.
    pub fn text(&self) -> String {
        let Self {
            top, lists, limits, ..
        } = self;
        format!(
            "max_sources = 65536\nnew_sources = \"2k/s\"\nnew_sources_burst = 4000\n{top}\n\
             [lists]\ndeny = [\"{DENIED}\"]\n{lists}\n\
             [[limit]]\nname = \"all\"\nrate = \"{RATE}/s\"\nburst = {BURST}\n{limits}"
        )
    }

    /// The first file: without lists.
    pub fn first() -> String {
        let text = CONFIGURATIONS[0].text();
        text.replace(&format!("[lists]\ndeny = [\"{DENIED}\"]\n"), "")
    }
}
