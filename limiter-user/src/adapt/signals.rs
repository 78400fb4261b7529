//! The signals of the host's load, read from `/proc` and from a probe.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use super::probe::Prober;
use crate::config::adaptive::{Percent, When};

/// A counter of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counter {
    /// Microseconds of pressure, in this file.
    Pressure(&'static str),
    /// A column of `/proc/net/softnet_stat`.
    Softnet(usize),
    /// Connections that listening sockets had no room for.
    ListenOverflows,
}

/// A counter, and the most that it may rise in a second.
#[derive(Debug)]
struct Signal {
    key: &'static str,
    counter: Counter,
    most: f64,
    last: u64,
}

/// The signals of one limit.
#[derive(Debug)]
pub struct Signals {
    counters: Vec<Signal>,
    read: Instant,
    prober: Option<Prober>,
}

const MICROSECONDS: f64 = 1e6;

impl Signals {
    /// Reads the counters for the first time, and starts the probe.
    ///
    /// # Errors
    /// The kernel lacks a counter.
    pub fn start(when: &When) -> Result<Self> {
        let share = |percent: Percent| percent.share() * MICROSECONDS;
        let pressures = [
            ("cpu_pressure", when.cpu_pressure.map(share)),
            ("irq_pressure", when.irq_pressure.map(share)),
        ];
        let rates = (when.rates()).map(|(key, rate)| (key, rate.map(|rate| rate.per_second())));
        let wanted = pressures.into_iter().chain(rates).zip([
            Counter::Pressure("/proc/pressure/cpu"),
            Counter::Pressure("/proc/pressure/irq"),
            Counter::Softnet(1),
            Counter::Softnet(2),
            Counter::ListenOverflows,
        ]);
        let mut counters = Vec::new();
        for ((key, most), counter) in wanted {
            let Some(most) = most else { continue };
            let last = counter.read().with_context(|| {
                format!("{key}: this kernel does not count it (pressure needs psi=1 on its command line): leave it out of the file")
            })?;
            counters.push(Signal {
                key,
                counter,
                most,
                last,
            });
        }
        Ok(Self {
            counters,
            read: Instant::now(),
            prober: when.probe.clone().map(Prober::start).transpose()?,
        })
    }

    /// The signals that were over their values since the last call, for people. Empty if none was.
    pub fn over(&mut self) -> Result<String> {
        let now = Instant::now();
        let seconds = now.duration_since(self.read).as_secs_f64();
        self.read = now;
        let mut over = Vec::new();
        for signal in &mut self.counters {
            let value = signal.counter.read().context(signal.key)?;
            let rise = value.saturating_sub(signal.last) as f64 / seconds;
            signal.last = value;
            if rise > signal.most {
                let [rise, most] = [rise, signal.most].map(|rise| signal.counter.text(rise));
                over.push(format!("{} {rise} > {most}", signal.key));
            }
        }
        over.extend(self.prober.as_ref().and_then(Prober::over));
        Ok(over.join(", "))
    }
}

impl Counter {
    fn read(self) -> Result<u64> {
        let path = match self {
            Self::Pressure(path) => path,
            Self::Softnet(_) => "/proc/net/softnet_stat",
            Self::ListenOverflows => "/proc/net/netstat",
        };
        let text = fs::read_to_string(Path::new(path))
            .with_context(|| format!("{path} cannot be read"))?;
        self.value(&text)
            .with_context(|| format!("{path} has no such counter"))
    }

    /// The counter in the text of its file.
    fn value(self, text: &str) -> Option<u64> {
        match self {
            // The first line of cpu is `some`; irq has only `full`.
            Self::Pressure(_) => {
                let (_, total) = text.lines().next()?.split_once("total=")?;
                total.trim().parse().ok()
            }
            Self::Softnet(column) => {
                let of_cpus = text.lines().map(|line| {
                    let word = line.split_whitespace().nth(column)?;
                    u64::from_str_radix(word, 16).ok()
                });
                of_cpus.sum()
            }
            Self::ListenOverflows => {
                let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
                let [names, values] = [lines.next()?, lines.next()?].map(str::split_whitespace);
                let mut both = names.zip(values);
                let (_, value) = both.find(|(name, _)| *name == "ListenOverflows")?;
                value.parse().ok()
            }
        }
    }

    /// A rise in a second, for people.
    fn text(self, rise: f64) -> String {
        match self {
            Self::Pressure(_) => format!("{:.0}%", rise / MICROSECONDS * 100.0),
            _ => format!("{rise:.0}/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn counters_are_read() {
        let pressure = "some avg10=2.74 avg60=5.66 avg300=8.23 total=16921201166\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let softnet = "0c416386 00030fb7 0000000a 00000000\n47d1a59c 0005e896 0000002c 00000000\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 23 4\nIpExt: InNoRoutes\nIpExt: 0\n";
        for (counter, text, value) in [
            (Counter::Pressure(""), pressure, Some(16_921_201_166)),
            (Counter::Pressure(""), "", None),
            (
                Counter::Softnet(1),
                softnet,
                Some(0x0003_0fb7 + 0x0005_e896),
            ),
            (Counter::Softnet(2), softnet, Some(0x0a + 0x2c)),
            (Counter::Softnet(9), softnet, None),
            (Counter::ListenOverflows, netstat, Some(23)),
            (
                Counter::ListenOverflows,
                "TcpExt: ListenDrops\nTcpExt: 4\n",
                None,
            ),
        ] {
            assert_eq!(counter.value(text), value, "{counter:?}");
        }
    }
}
