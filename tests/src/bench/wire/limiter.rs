//! Defines the measured settings of limiter.

use anyhow::Result;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_common::abi::Config;
use limiter_user::{
    config::{
        Burst, Limit, Match, NewSources, Rate, Scope, Settings, compile::TierBits, matches::Ports,
        slot::Slot,
    },
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
        let settings = self.settings(case)?;
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
        compile(&self.settings(case)?, &TierBits::default())
    }

    /// The settings of the subject. Subjects without settings of their own have those of `limiter`.
    fn settings(self, case: Case) -> Result<Settings> {
        let mut settings = Settings {
            max_sources: case.sources.capacity(),
            // New sources meet the default new-source limit. Other sources must be known, and are admitted at once.
            new_sources: (case.sources == Sources::New).then(NewSources::default),
            limits: vec![by_source(case.verdict)?],
            ..Settings::default()
        };
        match self {
            Self::LimiterEight => {
                for number in 1..=8_u16 {
                    let mut limit = by_source(case.verdict)?;
                    limit.name = format!("port-{number}");
                    limit.matches = Match {
                        protocol: Some("tcp".parse()?),
                        destination_port: Ports(vec![(7_000 + number).to_string().parse()?]),
                        ..Match::default()
                    };
                    settings.limits.push(limit);
                }
            }
            Self::LimiterLists => settings.lists.allow = prefixes(case.family)?,
            Self::LimiterFleet => {
                settings.fleet = Some("bench".to_owned());
                for limit in &mut settings.limits {
                    limit.scope = Scope::Fleet;
                }
            }
            Self::LimiterEstablished => settings.exempt.established = true,
            Self::LimiterNested => {
                for (name, key) in [("network", "/24,/48"), ("interface", "interface")] {
                    let mut limit = limit(name, "100M/s", "100M")?;
                    limit.key = key.parse()?;
                    settings.limits.push(limit);
                }
            }
            _ => {}
        }
        Ok(settings)
    }
}

fn compile(settings: &Settings, bits: &TierBits) -> Result<Config> {
    let slot = |(number, limit): (u32, Limit)| Slot {
        phase: 0,
        ..Slot::new(&limit, number)
    };
    let slots: Vec<Slot> = (0..).zip(settings.all_limits()).map(slot).collect();
    Ok(settings.compile(&slots, bits, FRAME_MAX)?)
}

fn by_source(verdict: Verdict) -> Result<Limit> {
    match verdict {
        Verdict::Dropped => limit("source", "1/h", "1"),
        Verdict::Passed => limit("source", "1M/s", "1M"),
    }
}

fn limit(name: &str, rate: &str, burst: &str) -> Result<Limit> {
    let (rate, burst): (Rate, Burst) = (rate.parse()?, burst.parse()?);
    Ok(Limit {
        burst: Some(burst),
        ..Limit::new(name, rate)
    })
}

/// Consecutive prefixes in 10.0.0.0/8 or 2001:db8::/32.
fn prefixes(family: Family) -> Result<std::collections::BTreeSet<IpNet>> {
    (0..PREFIXES)
        .map(|number| {
            Ok(match family {
                Family::Ipv4 => Ipv4Net::new((0x0a00_0000 + number * 16).into(), 28)?.into(),
                Family::Ipv6 => {
                    let network = (0x2001_0db8 << 96) | (u128::from(number) << 64);
                    Ipv6Net::new(network.into(), 64)?.into()
                }
            })
        })
        .collect()
}
