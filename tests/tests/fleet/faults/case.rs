//! Puts a fleet under load, and checks its bound.

use std::{cell::Cell, net::Ipv4Addr, thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Agent, Bucket, Fleet, Load, Sent, Stream, source},
    number,
    redis::Redis,
};
use limiter_user::kernel::sys::clock;
use serde_json::Value;

use crate::shared::{agents, limits_of, store};

/// The limit of the whole fleet on a source.
pub const LIMIT: Bucket = Bucket {
    rate: 100,
    burst: 10,
};
/// Packets per second of both sources together. One packet in 15 is from the calm source.
const LOAD: (u32, usize) = (600, 15);
/// Duration of the load, which each test stops earlier.
const LONG: Duration = Duration::from_secs(180);
/// Time over which the bound is checked.
const WINDOW: Duration = Duration::from_millis(1_500);
/// A source that sends far more than its rate.
pub const HOT: u8 = 7;
/// A source that sends less than half of its rate.
pub const CALM: u8 = 8;

/// The settings of each host.
pub fn limits() -> String {
    limits_of(LIMIT)
}

/// A fleet with its store and an agent on each host.
pub struct Case<'f> {
    pub fleet: &'f Fleet,
    pub store: Redis<'f>,
    pub agents: Vec<Agent>,
}

/// Number of packets of the hot source that each host has passed, and the clock before and after the reading.
pub struct Mark {
    pub passed: Vec<u64>,
    between: (u64, u64),
}

impl<'f> Case<'f> {
    /// Starts a store, and agents that know of each other.
    pub fn new(fleet: &'f Fleet) -> Self {
        let store = store(fleet);
        let agents = agents(fleet, &store);
        Self {
            fleet,
            store,
            agents,
        }
    }

    /// Sends packets of both sources. Returns when the agents have a ledger of the hot source.
    pub fn load(&self) -> Stream {
        let (per_second, parts) = LOAD;
        let mut sources = vec![source(HOT); parts];
        sources[parts - 1] = source(CALM);
        let stream = self.fleet.start(&Load::of_many(sources, per_second, LONG));
        stream.wait_for(u64::from(per_second) / 2);
        stream
    }

    /// The status of the fleet, from a host's agent.
    pub fn says(&self, host: usize) -> Value {
        self.fleet.status(host)["fleet"].clone()
    }

    /// Number of packets of a source that each host has `passed` or `dropped`.
    pub fn figures(&self, of: Ipv4Addr, what: &str) -> Vec<u64> {
        let of = |host| number(&self.fleet.check(host, of)["limits"][0][format!("{what}_packets")]);
        (0..self.fleet.size()).map(of).collect()
    }

    /// Reads the number of packets of the hot source that have passed.
    pub fn mark(&self) -> Mark {
        let before = clock::now().unwrap();
        let passed = self.figures(source(HOT), "passed");
        Mark {
            passed,
            between: (before, clock::now().unwrap()),
        }
    }

    /// Panics unless the fleet's bound holds for a while.
    ///
    /// The bound is a burst and its refill, plus the packets that other hosts pass within the staleness that the agents
    /// report. (The overshoot that agents report also covers sources that were silent before.) If agents are stale
    /// because the machine is busy, even unshared limits stay within the bound. Such a reading is repeated.
    pub fn bound_holds(&self) {
        eventually("the shared bound holds", || {
            let stated = (0..self.fleet.size()).map(|host| self.overshoot(host));
            let stated = stated.fold(0.0, f64::max);
            let begin = self.mark();
            thread::sleep(WINDOW);
            let end = self.mark();
            let admitted = end.since(&begin);
            let time = end.between.1 - begin.between.0;
            let most = LIMIT.tokens(time) + stated;
            let apart = (self.fleet.size() as u64 * LIMIT.rate) as f64 * time as f64 / 1e9;
            println!(
                "then {admitted} of at most {most:.0} in {} ms, {stated:.0} of them overshoot; {apart:.0} apart",
                time / 1_000_000
            );
            assert!(admitted as f64 <= most, "{admitted} of at most {most}");
            most < apart
        });
    }

    /// Number of packets that the other hosts can pass within the staleness that a host's agent reports.
    fn overshoot(&self, host: usize) -> f64 {
        let beyond = Cell::new(0.0);
        // An agent checks for changed settings once a second.
        eventually("the agent reports the overshoot of these limits", || {
            let says = self.says(host);
            let stale = says["staleness_seconds"].as_f64().unwrap();
            let others = says["hosts"].as_f64().unwrap() - 1.0;
            beyond.set(others * LIMIT.tokens((stale * 1e9) as u64));
            number(&says["limits"][0]["overshoot_packets"]) as f64 >= beyond.get().floor()
        });
        beyond.get()
    }

    /// Waits until the agents of these hosts reach the store and each other again.
    pub fn recovered(&self, hosts: impl IntoIterator<Item = usize>) {
        for host in hosts {
            eventually(&format!("host {host} reaches the store again"), || {
                let says = self.says(host);
                says["error"].is_null()
                    && says["hosts"] == 3
                    && says["staleness_seconds"].as_f64() < Some(0.8)
            });
        }
    }

    /// Waits until a host's agent reports that the store does not answer, and that the data of other hosts grow stale.
    pub fn grows_stale(&self, host: usize) -> String {
        eventually(&format!("host {host} reports that it is alone"), || {
            !self.says(host)["error"].is_null()
        });
        let stale = |says: &Value| says["staleness_seconds"].as_f64().unwrap();
        let first = self.says(host);
        let begin = std::time::Instant::now();
        thread::sleep(Duration::from_millis(200));
        let between = begin.elapsed().as_secs_f64();
        let second = self.says(host);
        let grown = stale(&second) - stale(&first);
        assert!(grown >= between, "{grown} in {between}: {first} {second}");
        second["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Panics unless each host has kept its own limit, the hot source got all tokens, and hardly any packet of the calm
    /// source was refused.
    pub fn end(&self, stream: Stream) -> Sent {
        let sent = stream.stop();
        let most = LIMIT.tokens(sent.longest());
        let passed = self.figures(source(HOT), "passed");
        println!("{passed:?} of {most:.0}");
        for (host, passed) in passed.iter().enumerate() {
            assert!(*passed as f64 <= most, "host {host}: {passed} of {most}");
        }
        let calm = LOAD.1 - 1;
        let times = |is_calm| sent.times(|place| (sent.packets[place].source == calm) == is_calm);
        let due = *LIMIT.admits(&times(false)).start() as f64;
        let total = passed.iter().sum::<u64>() as f64;
        assert!(total >= due * 0.95, "{total} of {due}: punished");
        self.expect_calm_passed(&times(true));
        sent
    }

    fn expect_calm_passed(&self, times: &[(u64, u64)]) {
        let dropped = self.figures(source(CALM), "dropped");
        let due = *LIMIT.admits(times).start();
        println!("calm: {dropped:?} of {} were dropped", times.len());
        // If the machine stalls, it then sends more packets at once than the bucket admits.
        if due == times.len() as u64 {
            // Late messages are charged late. If two are late at once, and the refill meanwhile exceeds the burst, a
            // packet can be lost. Without credit for the overflow, most packets would be lost.
            let lost: u64 = dropped.iter().sum();
            assert!(lost <= due / 20, "{dropped:?} of {due}");
        }
    }
}

impl Mark {
    /// Number of packets that passed on all hosts since `begin`.
    pub fn since(&self, begin: &Self) -> u64 {
        let sum = |mark: &Self| mark.passed.iter().sum::<u64>();
        sum(self) - sum(begin)
    }
}
