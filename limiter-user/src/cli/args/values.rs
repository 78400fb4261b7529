//! Values on the command line, and what is said of wrong ones.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;

use crate::config::{Factor, Invalid, NewSources, Rate, lists, number, settings};

pub fn interface(text: &str) -> Result<String, String> {
    settings::interface(text)
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "not an address: write one as in 192.0.2.7 or 2001:db8::7".to_owned())
}

pub fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "not an address with a port: write one as in 127.0.0.1:10546 or [::1]:10546".to_owned()
    })
}

pub fn fleet(text: &str) -> Result<String, String> {
    settings::fleet_name(text)
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

/// A fleet, or none.
#[derive(Clone, Debug)]
pub struct FleetOrNone(pub Option<String>);

impl std::str::FromStr for FleetOrNone {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == settings::NO_FLEET {
            return Ok(Self(None));
        }
        settings::fleet_name(text)?;
        Ok(Self(Some(text.to_owned())))
    }
}

pub fn prefix(text: &str) -> Result<IpNet, String> {
    lists::prefix(text).map_err(|error| error.to_string())
}

pub fn count(text: &str) -> Result<u64, String> {
    number::parse(text, &[("", 1), ("k", 1_000), ("M", 1_000_000)])
        .map_err(|error| error.to_string())
}

/// A new value, or a factor for the one in force.
#[derive(Clone, Copy, Debug)]
pub enum Change<T> {
    /// The new value.
    To(T),
    /// The factor.
    By(Factor),
}

impl<T: std::str::FromStr<Err = Invalid>> std::str::FromStr for Change<T> {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('x') {
            text.parse().map(Self::By)
        } else {
            text.parse().map(Self::To)
        }
    }
}

/// How many new sources at once, or a factor for that.
pub fn count_or_factor(text: &str) -> Result<Change<u64>, String> {
    if text.starts_with('x') {
        let factor: Result<_, Invalid> = text.parse();
        return factor.map(Change::By).map_err(|error| error.to_string());
    }
    count(text).map(Change::To)
}

pub fn max_sources(text: &str) -> Result<u32, String> {
    let most = settings::SOURCES_MAX;
    u32::try_from(count(text)?)
        .ok()
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("the table holds 1 to {most} sources: write a number in between"))
}

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}: write one as in 90s or 10m"))
}

/// The rate of new sources, or none.
#[derive(Clone, Copy, Debug)]
pub struct NewSourcesRate(pub Option<Rate>);

impl std::str::FromStr for NewSourcesRate {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|rate| Self(Some(rate)))
    }
}

impl NewSourcesRate {
    /// With what may be bought at once.
    pub fn with_burst(self, burst: Option<u64>) -> Option<NewSources> {
        self.0.map(|rate| NewSources { rate, burst })
    }
}
