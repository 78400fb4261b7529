//! Defines the configurations, which are applied in turn. All have one limit in common, with a bound that must hold
//! through all changes.

use super::{BURST, RATE, frames::DENIED};

#[derive(Debug)]
pub struct Configuration {
    pub name: &'static str,
    top: &'static str,
    lists: &'static str,
    limits: &'static str,
    /// True if the configuration has a list `partners`.
    pub partners: bool,
    /// Another limit besides the common one.
    pub other: Option<&'static str>,
}

/// All configurations. The first takes the fast path: one limit, no lists.
pub const CONFIGURATIONS: [Configuration; 5] = [
    Configuration {
        name: "plain",
        top: "",
        lists: "",
        limits: "",
        partners: false,
        other: None,
    },
    Configuration {
        name: "several limits and a tier",
        top: "",
        lists: "allow = [\"192.0.2.128/25\"]\npartners = [\"203.0.113.210\"]",
        limits: "[[limit]]\nname = \"dns\"\nmatch = { protocol = \"udp\", destination_port = 53 }\nrate = \"20/s\"\nburst = 40\n\
            [[limit]]\nname = \"partners\"\nmatch = { source = \"partners\" }\nkey = \"/24,/48\"\nrate = \"1mbit\"\nburst = \"128kb\"\n\
            [[limit]]\nname = \"syn\"\nmatch = { protocol = \"tcp\", tcp_flags = \"syn\", unless = \"partners\" }\nrate = \"10/s\"\n",
        partners: true,
        other: Some("dns"),
    },
    Configuration {
        name: "shadow",
        top: "",
        lists: "",
        limits: "[[limit]]\nname = \"subnet\"\nkey = \"/24,/48\"\nrate = \"1k/s\"\nshadow = true\n\
            [[limit]]\nname = \"all-together\"\nkey = \"interface\"\nrate = \"5k/s\"\nshadow = true\n",
        partners: false,
        other: Some("subnet"),
    },
    Configuration {
        name: "established and control exempt",
        top: "exempt = [\"established\", \"control\"]",
        lists: "",
        limits: "[[limit]]\nname = \"dns\"\nmatch = { protocol = \"udp\", destination_port = 53 }\nkey = \"/24,/56\"\nrate = \"100/s\"\n",
        partners: false,
        other: Some("dns"),
    },
    Configuration {
        name: "windows, ports and fragments",
        top: "malformed = \"pass\"",
        lists: "partners = [\"203.0.113.0/28\"]",
        limits: "[[limit]]\nname = \"window\"\nmatch = { protocol = \"udp\", destination_port = \"50-60\" }\nkey = \"/32,/128,destination_port\"\nrate = \"20/s\"\nalgorithm = \"fixed-window\"\n\
            [[limit]]\nname = \"fragments\"\nmatch = { fragments = true }\nrate = \"5/s\"\ncost = 2\n",
        partners: true,
        other: Some("window"),
    },
];

impl Configuration {
    /// The configuration file; with `denied`, the denied source is on its list.
    pub fn text(&self, denied: bool) -> String {
        let Self {
            top, lists, limits, ..
        } = self;
        let denied = if denied {
            format!("deny = [\"{DENIED}\"]\n")
        } else {
            String::new()
        };
        let lists = if lists.is_empty() && denied.is_empty() {
            String::new()
        } else {
            format!("[lists]\n{denied}{lists}\n")
        };
        format!(
            "max_sources = 65536\nnew_sources = \"2k/s\"\nnew_sources_burst = 4000\n{top}\n{lists}\
             [[limit]]\nname = \"all\"\nrate = \"{RATE}/s\"\nburst = {BURST}\n{limits}"
        )
    }
}
