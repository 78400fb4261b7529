//! `adaptive`: signals of the host's load that lower a limit's rate.

use std::{fmt, time::Duration};

use http::Uri;
use limiter_common::arithmetic::{
    quota::{ADAPTIVE, Quota},
    scale,
};
use serde::{Deserialize, Serialize};

use super::{Invalid, Rate, Text, as_text, invalid};
use crate::reader::Keyed;

crate::keys! {
    /// The settings of an adaptive limit.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Adaptive("adaptive", "in adaptive = { ... } under [[limit]]") {
        /// Smallest part of `rate` and `burst` that is left: `"10%"` (default). At the floor, a full bucket must have
        /// room for one packet.
        floor: Percent = Percent(10), shown, r#"a percentage as in "20%""#;
        /// Signals with the values above which the rate falls, as in `{ cpu_pressure = "20%" }`.
        when: When, required, r#"a table as in { cpu_pressure = "20%" }"#;
    }
}

crate::keys! {
    /// Signals, with the values above which the rate falls. None: the signal is not used.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct When("when", "in when = { ... } in adaptive") {
        /// Part of the time in which tasks waited for a CPU, as in `"20%"` (`/proc/pressure/cpu`).
        cpu_pressure: Option<Percent>, r#"a percentage as in "20%""#;
        /// Part of the time in which tasks waited for interrupts, as in `"10%"` (`/proc/pressure/irq`, Linux 6.1).
        irq_pressure: Option<Percent>, r#"a percentage as in "20%""#;
        /// Packets that CPUs dropped because their backlog was full, as in `"100/s"` (`/proc/net/softnet_stat`).
        softnet_drops: Option<Rate>, r#"a rate as in "100/s""#;
        /// Polls of network devices that ended with packets left, as in `"100/s"`.
        softnet_squeezes: Option<Rate>, r#"a rate as in "100/s""#;
        /// Connections that listening sockets had no room for, as in `"10/s"`, in the network namespace of `limiter
        /// adapt`.
        listen_overflows: Option<Rate>, r#"a rate as in "100/s""#;
        /// Address of a server, and the time within which nine of ten answers must come: `"http://127.0.0.1/health >
        /// 200ms"`, or `"tcp://127.0.0.1:25 > 50ms"` for a connection.
        probe: Option<Probe>, r#"an address and a time as in "http://127.0.0.1/health > 200ms""#;
    }
}

/// Whole percents, from 1 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percent(u8);

/// A server, and the time within which nine of ten answers come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Probe {
    /// Its address: `http` with a path, or `tcp` with a port.
    pub url: Uri,
    /// The longest good time.
    pub within: Duration,
}

/// The longest time of a probe.
const MOST: Duration = Duration::from_secs(10);

impl Adaptive {
    /// Adaptive to `when`, down to `floor` or a tenth.
    pub fn new(floor: Option<Percent>, when: When) -> Self {
        Self {
            floor: floor.unwrap_or(Self::default().floor),
            when,
        }
    }

    /// The quota of the limit. Its longest packet costs `longest`, in the quota's units. `least`: a burst with room for
    /// this many such packets. Fails if the bucket could never admit that packet at the floor.
    pub fn of(
        &self,
        mut quota: Quota,
        longest: u64,
        least: impl FnOnce(u64) -> String,
    ) -> Result<Quota, Invalid> {
        let Percent(floor) = self.floor;
        let cost = scale::cost(longest, self.floor.stretch());
        if longest >= scale::COST_MAX || cost > quota.tau {
            let least = least(100_u64.div_ceil(floor.into()));
            return Err(invalid!(
                "at the floor of {}, a full bucket has less than one packet: write a burst of at least {least}, or a higher floor",
                self.floor
            ));
        }
        quota.flags |= ADAPTIVE;
        Ok(quota)
    }
}

impl fmt::Display for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signals = self.when.texts();
        // A probe has its sign already.
        let signals: Vec<_> = signals
            .map(|(key, value)| match key {
                "probe" => format!("{key} {value}"),
                key => format!("{key} > {value}"),
            })
            .collect();
        let signals = signals.join(" or ");
        write!(f, "{} of the rate when {signals}", self.floor)
    }
}

impl When {
    /// Returns true if no signal is used.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The signals that count events, with their keys.
    pub fn rates(&self) -> [(&'static str, Option<Rate>); 3] {
        [
            ("softnet_drops", self.softnet_drops),
            ("softnet_squeezes", self.softnet_squeezes),
            ("listen_overflows", self.listen_overflows),
        ]
    }

    /// The keys of the signals that are used, with their values.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let all = self.values(&Self::default()).into_iter();
        let used = all.filter(|signal| signal.written.is_some());
        used.map(|signal| (signal.known.key, signal.words))
    }
}

impl Percent {
    /// The number, from 0.01 to 0.99.
    pub fn share(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// The scale that is this part of [`scale::ONE`], rounded up.
    pub fn of_one(self) -> u32 {
        (scale::ONE * u32::from(self.0)).div_ceil(100)
    }

    /// The stretch of costs at this part of the rate.
    pub fn stretch(self) -> u32 {
        stretch_of(self.of_one())
    }
}

/// The stretch of costs at a scale between a hundredth of [`scale::ONE`] and [`scale::ONE`]. Rounded up, so that the rate
/// is never above the scale.
pub fn stretch_of(scale: u32) -> u32 {
    let stretch = (1_u64 << 32).div_ceil(u64::from(scale));
    u32::try_from(stretch).map_or(scale::STRETCH_MAX, |stretch| {
        stretch.min(scale::STRETCH_MAX)
    })
}

impl Text for Percent {
    fn read(text: &str) -> Result<Self, Invalid> {
        let number = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok());
        let number = number.filter(|number| (1..=99).contains(number));
        number
            .map(Self)
            .ok_or_else(|| invalid!("'{text}' is not a percentage: write \"1%\" to \"99%\""))
    }

    fn shown(&self) -> String {
        format!("{}%", self.0)
    }
}

impl Text for Probe {
    fn read(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (url, within) = text.split_once('>')?;
            let url: Uri = url.trim().parse().ok()?;
            let within = humantime::parse_duration(within.trim()).ok()?;
            let port = url.port_u16().filter(|port| *port > 0);
            let reachable = match (url.scheme_str()?, url.authority()?.as_str()) {
                // No password, and no port that cannot be read.
                (_, authority) if authority.contains('@') => false,
                ("http", authority) => port.is_some() || url.host() == Some(authority),
                ("tcp", _) => port.is_some() && url.path() == "/",
                _ => false,
            };
            let fits = (Duration::from_millis(1)..=MOST).contains(&within);
            (reachable && fits).then_some(Self { url, within })
        };
        read().ok_or_else(|| {
            invalid!("'{text}' is not an address and a time of 1 ms to 10 s: write them as in \"http://127.0.0.1/health > 200ms\" or \"tcp://127.0.0.1:25 > 50ms\"")
        })
    }

    fn shown(&self) -> String {
        let within = humantime::format_duration(self.within);
        format!("{} > {within}", self.url)
    }
}

as_text!(Percent, Probe);
