//! The signals of the host's load, read from `/proc` and from a probe.

use std::fs;

use anyhow::{Context as _, Result};
use limiter_config::adaptive::{Percent, When};
use tokio::time::Instant;

use super::probe::Prober;

/// A counter of the kernel: its file, and its value in the text of the file.
type Counter = (&'static str, fn(&str) -> Option<u64>);

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
        let counters: [Counter; 5] = [
            ("/proc/pressure/cpu", pressure),
            ("/proc/pressure/irq", pressure),
            ("/proc/net/softnet_stat", |text| softnet(text, 1)),
            ("/proc/net/softnet_stat", |text| softnet(text, 2)),
            ("/proc/net/netstat", listen_overflows),
        ];
        let wanted = pressures.into_iter().chain(rates).zip(counters);
        let mut counters = Vec::new();
        for ((key, most), counter) in wanted {
            let Some(most) = most else { continue };
            let last = read(counter).with_context(|| {
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
            let value = read(signal.counter).context(signal.key)?;
            let rise = value.saturating_sub(signal.last) as f64 / seconds;
            signal.last = value;
            if rise > signal.most {
                let text = |rise: f64| match signal.key.ends_with("pressure") {
                    true => format!("{:.0}%", rise / MICROSECONDS * 100.0),
                    false => format!("{rise:.0}/s"),
                };
                let [rise, most] = [rise, signal.most].map(text);
                over.push(format!("{} {rise} > {most}", signal.key));
            }
        }
        over.extend(self.prober.as_ref().and_then(Prober::over));
        Ok(over.join(", "))
    }
}

fn read((path, value): Counter) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    value(&text).with_context(|| format!("{path} has no such counter"))
}

/// Microseconds of pressure. The first line of cpu is `some`; irq has only `full`.
fn pressure(text: &str) -> Option<u64> {
    let (_, total) = text.lines().next()?.split_once("total=")?;
    total.trim().parse().ok()
}

/// A column of `/proc/net/softnet_stat`, of all CPUs.
fn softnet(text: &str, column: usize) -> Option<u64> {
    let of_cpus = text.lines().map(|line| {
        let word = line.split_whitespace().nth(column)?;
        u64::from_str_radix(word, 16).ok()
    });
    of_cpus.sum()
}

/// Connections that listening sockets had no room for.
fn listen_overflows(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let [names, values] = [lines.next()?, lines.next()?].map(str::split_whitespace);
    let (_, value) = names
        .zip(values)
        .find(|(name, _)| *name == "ListenOverflows")?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{listen_overflows, pressure, softnet};

    #[test]
    fn counters_are_read() {
        let some = "some avg10=2.74 avg60=5.66 avg300=8.23 total=16921201166\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let columns = "0c416386 00030fb7 0000000a 00000000\n47d1a59c 0005e896 0000002c 00000000\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 23 4\nIpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(pressure(some), Some(16_921_201_166));
        assert_eq!(pressure(""), None);
        assert_eq!(softnet(columns, 1), Some(0x0003_0fb7 + 0x0005_e896));
        assert_eq!(softnet(columns, 2), Some(0x0a + 0x2c));
        assert_eq!(softnet(columns, 9), None);
        assert_eq!(listen_overflows(netstat), Some(23));
        let none = "TcpExt: ListenDrops\nTcpExt: 4\n";
        assert_eq!(listen_overflows(none), None);
    }
}
