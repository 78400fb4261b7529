//! A fleet under load, and what must be true of it.

use std::{cell::Cell, net::Ipv4Addr, thread, time::Duration};

use limiter_tests::{
    eventually,
    fleet::{Agent, Bucket, Fleet, Load, Sent, Stream, source, store_url},
    number,
    redis::Redis,
};
use limiter_user::kernel::sys::clock;
use serde_json::Value;

use crate::shared::{PASSWORD, store};

/// What the whole fleet is to let through of a source.
pub const LIMIT: Bucket = Bucket {
    rate: 100,
    burst: 10,
};
/// Packets per second of both sources together, and which part of them is the calm one's.
const LOAD: (u32, usize) = (600, 15);
/// Longer than any test sends for: the load is stopped.
const LONG: Duration = Duration::from_secs(60);
/// How long the bound is looked at.
const WINDOW: Duration = Duration::from_millis(1_500);
/// Sends far more than it may.
pub const HOT: u8 = 7;
/// Stays below the half of its rate.
pub const CALM: u8 = 8;

/// The settings of each host.
pub fn limits() -> String {
    limits_of(LIMIT)
}

/// The same with another limit.
pub fn limits_of(Bucket { rate, burst }: Bucket) -> String {
    format!(
        "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[[limit]]\nname = \"all\"\nscope = \"fleet\"\n\
         rate = \"{rate}/s\"\nburst = {burst}\n"
    )
}

/// Where the agents find the store, at a port of its address.
pub fn url(port: u16) -> String {
    store_url(port).replace("//", &format!("//:{PASSWORD}@"))
}

/// A fleet with its store and an agent on each host.
pub struct Case<'f> {
    pub fleet: &'f Fleet,
    pub store: Redis<'f>,
    pub agents: Vec<Agent>,
}

/// What all hosts had let through of the hot source, and between which two readings of the clock that was read.
pub struct Mark {
    pub passed: Vec<u64>,
    between: (u64, u64),
}

impl<'f> Case<'f> {
    /// Agents that know of one another.
    pub fn new(fleet: &'f Fleet) -> Self {
        let store = store(fleet);
        let url = url(store.port);
        Self::with(fleet, store, &url)
    }

    /// The same with a way of its own to the store.
    pub fn with(fleet: &'f Fleet, store: Redis<'f>, url: &str) -> Self {
        let agents = (0..fleet.size()).map(|host| fleet.agent(host, url, &[]));
        let case = Self {
            agents: agents.collect(),
            fleet,
            store,
        };
        fleet.wait_until_all_agents_see(fleet.size() as u64);
        case
    }

    /// Both sources send, the calm one a packet in so many. Goes on when account is kept of the hot one.
    pub fn load(&self) -> Stream {
        let (per_second, parts) = LOAD;
        let mut sources = vec![source(HOT); parts];
        sources[parts - 1] = source(CALM);
        let stream = self.fleet.start(&Load::of_many(sources, per_second, LONG));
        stream.wait_for(u64::from(per_second) / 2);
        stream
    }

    /// What the agent of a host says.
    pub fn says(&self, host: usize) -> Value {
        self.fleet.status(host)["fleet"].clone()
    }

    /// Packets of a source that each host has let through, or (`dropped`) has not.
    pub fn figures(&self, of: Ipv4Addr, what: &str) -> Vec<u64> {
        let of = |host| number(&self.fleet.check(host, of)["limits"][0][format!("{what}_packets")]);
        (0..self.fleet.size()).map(of).collect()
    }

    /// What has been let through of the hot source by now.
    pub fn mark(&self) -> Mark {
        let before = clock::now().unwrap();
        let passed = self.figures(source(HOT), "passed");
        Mark {
            passed,
            between: (before, clock::now().unwrap()),
        }
    }

    /// The fleet's bound holds between now and a while later: a burst and what is refilled, and on each other host as
    /// much again within the staleness that the agents state. (What they state of the overshoot has more in it, for
    /// sources that were silent before.)
    pub fn bound_holds(&self) {
        let stated = (0..self.fleet.size()).map(|host| {
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
        });
        let stated = stated.fold(0.0, f64::max);
        let begin = self.mark();
        thread::sleep(WINDOW);
        let end = self.mark();
        let admitted = end.since(&begin);
        let time = end.between.1 - begin.between.0;
        let most = LIMIT.tokens(time) + stated;
        println!(
            "then {admitted} of at most {most:.0} in {} ms, {stated:.0} of them overshoot",
            time / 1_000_000
        );
        // A bound that three hosts on their own keep to as well would prove nothing.
        let apart = (self.fleet.size() as u64 * LIMIT.rate) as f64 * WINDOW.as_secs_f64();
        assert!(
            most < apart,
            "{most} is no bound: {stated} packets of overshoot"
        );
        assert!(admitted as f64 <= most, "{admitted} of at most {most}");
    }

    /// Waits until the agents of these hosts hear of the store again, and of one another.
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

    /// Waits until a host's agent says that the store does not answer; then what is known of the others grows older,
    /// and older.
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

    /// What is true at the end, whatever has happened: each host has kept its own limit, the hot source has lost
    /// nothing that was due to it, and the calm one was hardly refused anything.
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
        // A machine that stands still for long, and then sends all at once, has sent more than is due.
        if due == times.len() as u64 {
            // Late news is charged late: where a burst is smaller than what refills meanwhile, and two things are late
            // at once, it can cost a packet. Without credit for what ran over it costs most of them.
            let lost: u64 = dropped.iter().sum();
            assert!(lost <= due / 20, "{dropped:?} of {due}");
        }
    }
}

impl Mark {
    /// Packets of all hosts since then.
    pub fn since(&self, begin: &Self) -> u64 {
        let sum = |mark: &Self| mark.passed.iter().sum::<u64>();
        sum(self) - sum(begin)
    }
}
