//! A fleet under load, and the checks of its bound.

use std::{cell::Cell, net::Ipv4Addr, thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Agent, Bucket, Fleet, Load, Sent, Stream, source},
    number,
    redis::Redis,
};
use limiter_user::kernel::sys::clock;
use serde_json::Value;

use crate::shared::{limits_of, store, url};

/// The limit of the whole fleet on a source.
pub const LIMIT: Bucket = Bucket {
    rate: 100,
    burst: 10,
};
/// Packets per second of both sources together; one packet in so many is the calm source's.
const LOAD: (u32, usize) = (600, 15);
/// Longer than any test: the load is stopped earlier.
const LONG: Duration = Duration::from_secs(180);
/// Time over which the bound is checked.
const WINDOW: Duration = Duration::from_millis(1_500);
/// The source that sends far more than its rate.
pub const HOT: u8 = 7;
/// The source that stays below half of its rate.
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

/// Packets of the hot source that each host had passed, and the clock before and after they were read.
pub struct Mark {
    pub passed: Vec<u64>,
    between: (u64, u64),
}

impl<'f> Case<'f> {
    /// Starts agents that know of one another.
    pub fn new(fleet: &'f Fleet) -> Self {
        Self::with(fleet, store(fleet))
    }

    /// Starts agents of this store.
    pub fn with(fleet: &'f Fleet, store: Redis<'f>) -> Self {
        let url = url(store.port);
        let agents = (0..fleet.size()).map(|host| fleet.agent(host, &url, &[]));
        let case = Self {
            agents: agents.collect(),
            fleet,
            store,
        };
        fleet.wait_until_all_agents_see(fleet.size() as u64);
        case
    }

    /// Sends packets of both sources. Returns once the agents keep an account of the hot one.
    pub fn load(&self) -> Stream {
        let (per_second, parts) = LOAD;
        let mut sources = vec![source(HOT); parts];
        sources[parts - 1] = source(CALM);
        let stream = self.fleet.start(&Load::of_many(sources, per_second, LONG));
        stream.wait_for(u64::from(per_second) / 2);
        stream
    }

    /// The fleet status that a host's agent reports.
    pub fn says(&self, host: usize) -> Value {
        self.fleet.status(host)["fleet"].clone()
    }

    /// Packets of a source that each host has `passed`, or has `dropped`.
    pub fn figures(&self, of: Ipv4Addr, what: &str) -> Vec<u64> {
        let of = |host| number(&self.fleet.check(host, of)["limits"][0][format!("{what}_packets")]);
        (0..self.fleet.size()).map(of).collect()
    }

    /// Reads the packets of the hot source that passed until now.
    pub fn mark(&self) -> Mark {
        let before = clock::now().unwrap();
        let passed = self.figures(source(HOT), "passed");
        Mark {
            passed,
            between: (before, clock::now().unwrap()),
        }
    }

    /// Panics unless the fleet's bound holds for a while: a burst and its refill, and as much again on each other host
    /// within the staleness that the agents report. (The overshoot that they report also covers sources that were
    /// silent before.) On a busy machine agents are stale, and hosts on their own would stay within the bound too: that
    /// proves nothing, and is measured again.
    pub fn bound_holds(&self) {
        eventually("the bound is one", || {
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

    /// The packets that the others can pass within the staleness that a host's agent reports.
    fn overshoot(&self, host: usize) -> f64 {
        let beyond = Cell::new(0.0);
        // An agent looks for changed settings once a second.
        eventually("what is stated is that of these limits", || {
            let says = self.says(host);
            let stale = says["staleness_seconds"].as_f64().unwrap();
            let others = says["hosts"].as_f64().unwrap() - 1.0;
            beyond.set(others * LIMIT.tokens((stale * 1e9) as u64));
            number(&says["limits"][0]["overshoot_packets"]) as f64 >= beyond.get().floor()
        });
        beyond.get()
    }

    /// Waits until the agents of these hosts hear of the store and of one another again.
    pub fn recovered(&self, hosts: impl IntoIterator<Item = usize>) {
        for host in hosts {
            eventually(&format!("host {host} hears of the store again"), || {
                let says = self.says(host);
                says["error"].is_null()
                    && says["hosts"] == 3
                    && says["staleness_seconds"].as_f64() < Some(0.8)
            });
        }
    }

    /// Waits until a host's agent reports that the store does not answer and that the others' news gets older and
    /// older.
    pub fn grows_stale(&self, host: usize) -> String {
        eventually(&format!("host {host} says that it is alone"), || {
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

    /// Panics unless each host has kept its own limit, the hot source has lost nothing that was due to it, and the
    /// calm source was hardly refused anything.
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
        self.calm_lost_nothing(&times(true));
        sent
    }

    fn calm_lost_nothing(&self, times: &[(u64, u64)]) {
        let dropped = self.figures(source(CALM), "dropped");
        let due = *LIMIT.admits(times).start();
        println!("calm: {dropped:?} of {} were dropped", times.len());
        // A machine that stalls and then sends everything at once has sent more than is due.
        if due == times.len() as u64 {
            // Late news is charged late: if a burst is smaller than the refill meanwhile, and two messages are late at
            // once, it can cost a packet. Without credit for the overflow, it costs most packets.
            let lost: u64 = dropped.iter().sum();
            assert!(lost <= due / 20, "{dropped:?} of {due}");
        }
    }
}

impl Mark {
    /// Packets that passed on all hosts since then.
    pub fn since(&self, begin: &Self) -> u64 {
        let sum = |mark: &Self| mark.passed.iter().sum::<u64>();
        sum(self) - sum(begin)
    }
}
