//! What becomes of a TCP connection under some settings: told before they are put into force.

use std::net::IpAddr;

use limiter_common::abi::rules::{ON_ALLOW, ON_DENY};

use super::{Lists, Settings, compile::TierBits};

/// The packets of a TCP connection that come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Where they come from.
    pub from: IpAddr,
    /// The port of this host that they go to.
    pub port: u16,
}

/// What is done to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its packets pass, whatever there are.
    Free,
    /// This limit may drop its packets.
    Limited(String),
    /// All its packets are dropped: `deny` has the source.
    Denied,
}

impl Settings {
    /// What becomes of a connection that is open already.
    #[must_use]
    pub fn fate(&self, connection: &Connection) -> Fate {
        if self.shadow {
            return Fate::Free;
        }
        let bits = TierBits::default().for_lists(&self.lists).0;
        let listed = self.lists.deciding(&bits, connection.from);
        if listed & ON_DENY != 0 {
            return Fate::Denied;
        }
        if listed & ON_ALLOW != 0 || self.exempt.established {
            return Fate::Free;
        }
        let is_on = |list: &String| bits.of(list).is_some_and(|bit| listed >> bit & 1 != 0);
        let mut enforced = self.limits.iter().filter(|limit| !limit.shadow);
        enforced
            .find(|limit| limit.matches.may_hold(connection, &is_on))
            .map_or(Fate::Free, |limit| Fate::Limited(limit.name.clone()))
    }
}

impl Lists {
    /// The bits of the lists that decide about the address, as the list maps hold them.
    fn deciding(&self, bits: &TierBits, address: IpAddr) -> u32 {
        let around = self.compile(bits).into_iter();
        around
            .filter(|(prefix, _)| prefix.contains(&address))
            .max_by_key(|(prefix, _)| prefix.prefix_len())
            .map_or(0, |(_, listed)| listed.lists)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The fate of 192.0.2.7's connection to port 22 under a file.
    fn fate(file: &str) -> Fate {
        let settings = crate::config::file::parse(file, Path::new(""))
            .unwrap()
            .settings;
        settings.fate(&Connection {
            from: [192, 0, 2, 7].into(),
            port: 22,
        })
    }

    fn limited(matches: &str) -> bool {
        let lists = "[lists]\nours = [\"192.0.2.0/24\"]\nothers = [\"192.0.2.8\"]\n";
        let limit = "[[limit]]\nname = \"it\"\nrate = \"5/s\"\n";
        match fate(&format!("{lists}{limit}{matches}")) {
            Fate::Free => false,
            Fate::Limited(name) => name == "it",
            Fate::Denied => panic!("nothing is denied"),
        }
    }

    #[test]
    fn a_limit_holds_what_matches() {
        for matches in [
            "",
            "match = { protocol = \"tcp\" }",
            "match = { destination_port = [\"20-30\", 80] }",
            "match = { source_port = 50000 }",
            "match = { tcp_flags = \"ack\" }",
            "match = { tcp_flags = \"/syn\" }",
            "match = { source = \"ours\" }",
            "match = { unless = \"others\" }",
            "match = { ip_version = 4 }",
            "match = { fragments = false }",
        ] {
            assert!(limited(matches), "{matches}");
        }
        for matches in [
            "match = { protocol = \"udp\" }",
            "match = { destination_port = 80 }",
            "match = { tcp_flags = \"syn\" }",
            "match = { tcp_flags = \"syn,ack\" }",
            "match = { tcp_flags = \"rst/rst,ack\" }",
            "match = { source = \"others\" }",
            "match = { unless = \"ours\" }",
            "match = { ip_version = 6 }",
            "match = { fragments = true }",
            "shadow = true",
        ] {
            assert!(!limited(matches), "{matches}");
        }
    }

    #[test]
    fn lists_and_exemptions_decide_first() {
        let limit = "[[limit]]\nname = \"it\"\nrate = \"5/s\"\n";
        for (file, expected) in [
            ("shadow = true\n", Fate::Free),
            ("exempt = [\"established\"]\n", Fate::Free),
            ("exempt = [\"control\"]\n", Fate::Limited("it".to_owned())),
            ("[lists]\nallow = [\"192.0.2.7\"]\n", Fate::Free),
            (
                "exempt = [\"established\"]\n[lists]\ndeny = [\"192.0.2.0/24\"]\n",
                Fate::Denied,
            ),
            (
                "[lists]\nallow = [\"192.0.2.0/25\"]\ndeny = [\"192.0.2.0/24\"]\n",
                Fate::Free,
            ),
            (
                "[lists]\nallow = [\"192.0.2.7\"]\ndeny = [\"192.0.2.7\"]\n",
                Fate::Denied,
            ),
        ] {
            assert_eq!(fate(&format!("{file}{limit}")), expected, "{file}");
        }
    }

    #[test]
    fn a_source_is_on_several_tiers_only_by_the_same_prefix() {
        let lists = Lists {
            tiers: [
                ("a", "192.0.2.0/24"),
                ("b", "192.0.2.0/24"),
                ("c", "192.0.0.0/16"),
            ]
            .map(|(name, prefix)| (name.to_owned(), [prefix.parse().unwrap()].into()))
            .into(),
            ..Lists::default()
        };
        let bits = TierBits::default().for_lists(&lists).0;
        let on = |names: &[&str]| {
            names
                .iter()
                .fold(0, |on, name| on | 1 << bits.of(name).unwrap())
        };
        let deciding = |address: [u8; 4]| lists.deciding(&bits, address.into());
        assert_eq!(deciding([192, 0, 2, 7]), on(&["a", "b"]));
        assert_eq!(deciding([192, 0, 3, 7]), on(&["c"]));
        assert_eq!(deciding([192, 1, 3, 7]), 0);
    }
}
