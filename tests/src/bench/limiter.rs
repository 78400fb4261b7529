//! Defines the measured settings of limiter.

use anyhow::Result;
use limiter_common::abi::Config;
use limiter_tests::settings;
use limiter_user::{
    config::{Settings, compile::TierBits, slot::Slot},
    kernel::{
        program::{
            object,
            object::{ListMaps, Maps, Program},
        },
        sys::requirements,
    },
};

use super::{
    case::{Case, Family, Sources, Verdict},
    subject::Subject,
};

/// Number of prefixes on the list.
const PREFIXES: u32 = 100_000;

const FRAME_MAX: u64 = 1_522;

impl Subject {
    /// Loads the program as `attach` would, with private maps.
    pub fn load(self, case: Case) -> Result<Program> {
        let settings = settings(&self.file(case));
        let bits = TierBits::default().for_lists(&settings.lists).0;
        let config = compile(&settings, &bits)?;
        let frags = requirements::kernel()?.has_frags();
        let lists = settings.lists.compile(&bits);
        Ok(object::load(
            &config,
            Maps::New,
            ListMaps::New(&lists),
            frags,
        )?)
    }

    /// The program's constants, with empty lists.
    pub fn config(self, case: Case) -> Result<Config> {
        compile(&settings(&self.file(case)), &TierBits::default())
    }

    /// The configuration file. Subjects without settings of their own have those of `limiter`.
    fn file(self, case: Case) -> String {
        let (rate, burst) = match case.verdict {
            Verdict::Dropped => ("1/h", "1"),
            Verdict::Passed => ("1M/s", "1M"),
        };
        let limit = |name: &str, rest: &str| {
            format!(
                "[[limit]]\nname = \"{name}\"\nrate = \"{rate}\"\nburst = \"{burst}\"\n{rest}\n"
            )
        };
        // New sources meet the default new-source limit. Other sources must be known, and are admitted at once.
        let new_sources = match case.sources {
            Sources::New => "",
            Sources::Number(_) => "new_sources = \"none\"",
        };
        let mut top = String::new();
        let mut limits = limit("source", "");
        match self {
            Self::LimiterEight => limits.extend((1..=8).map(|number| {
                let port = format!("destination_port = {}", 7_000 + number);
                let matches = format!("match = {{ protocol = \"tcp\", {port} }}");
                limit(&format!("port-{number}"), &matches)
            })),
            Self::LimiterLists => top = format!("[lists]\nallow = {:?}", prefixes(case.family)),
            Self::LimiterFleet => {
                top = "fleet = \"bench\"".to_owned();
                limits = limit("source", "scope = \"fleet\"");
            }
            Self::LimiterEstablished => top = "exempt = [\"established\"]".to_owned(),
            Self::LimiterNested => limits.extend(
                [("network", "/24,/48"), ("interface", "interface")].map(|(name, key)| {
                    let high = "rate = \"100M/s\"\nburst = \"100M\"";
                    format!("[[limit]]\nname = \"{name}\"\nkey = \"{key}\"\n{high}\n")
                }),
            ),
            _ => {}
        }
        let capacity = case.sources.capacity();
        format!("max_sources = {capacity}\n{new_sources}\n{top}\n{limits}")
    }
}

fn compile(settings: &Settings, bits: &TierBits) -> Result<Config> {
    let slot = |(number, limit)| Slot {
        phase: 0,
        ..Slot::new(&limit, number)
    };
    let slots: Vec<Slot> = (0..).zip(settings.all_limits()).map(slot).collect();
    Ok(settings.compile(&slots, bits, FRAME_MAX)?)
}

/// Consecutive prefixes in 10.0.0.0/8 or 2001:db8::/32.
fn prefixes(family: Family) -> Vec<String> {
    let prefix = |number: u32| match family {
        Family::Ipv4 => {
            let [_, b, c, d] = (number * 16).to_be_bytes();
            format!("10.{b}.{c}.{d}/28")
        }
        Family::Ipv6 => format!("2001:db8:{:x}:{:x}::/64", number >> 16, number & 0xffff),
    };
    (0..PREFIXES).map(prefix).collect()
}
