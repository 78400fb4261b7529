//! Puts a fleet under load, and checks its bound.

use std::{cell::Cell, net::Ipv4Addr, thread, time::Duration};

use limiter_kernel::sys::clock;
use limiter_tests::{
    eventually,
    fleet::{Agent, Bucket, Fleet, Load, STORE, Sent, Stream, source},
    number,
    pooler::Pooler,
    redis::Setup,
};
use serde_json::Value;

use super::Server;

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
const CALM: u8 = 8;

/// The password of the store. Without one, Redis refuses other hosts.
const PASSWORD: &str = "for-tests";

/// The settings of each host.
pub fn limits() -> String {
    limits_of(LIMIT)
}

/// The settings of each host, with another limit.
pub fn limits_of(Bucket { rate, burst }: Bucket) -> String {
    format!(
        "interfaces = [\"eth0\"]\nfleet = \"edge\"\n[[limit]]\nname = \"all\"\nscope = \"fleet\"\n\
         rate = \"{rate}/s\"\nburst = {burst}\n"
    )
}

/// A fleet with its store and agents.
pub struct Case<'f> {
    pub fleet: &'f Fleet,
    pub store: Server<'f>,
    pooler: Option<Pooler>,
    pub agents: Vec<Agent>,
}

/// Makes three hosts with these settings. Returns from the test if the machine cannot run it.
macro_rules! fleet {
    ($settings:expr) => {{
        limiter_tests::need_kernel!();
        if !super::Server::is_there(module_path!()) {
            return;
        }
        if !limiter_tests::need::program(module_path!(), "nft") {
            return;
        }
        let fleet = limiter_tests::fleet::Fleet::of(3);
        fleet.attach_all($settings);
        fleet
    }};
}
pub(crate) use fleet;

/// Number of packets of the hot source that each host has passed, and the clock before and after the reading.
pub struct Mark {
    pub passed: Vec<u64>,
    between: (u64, u64),
}

impl<'f> Case<'f> {
    /// Starts a store beside the fleet's hosts.
    pub fn without_agents(fleet: &'f Fleet) -> Self {
        let store = Server::start_as(Setup {
            host: Some(&fleet.network.store),
            address: Some(STORE.to_string()),
            password: Some(PASSWORD.to_owned()),
            ..Setup::default()
        });
        let agents = Vec::new();
        Self {
            fleet,
            pooler: super::in_front(&store),
            store,
            agents,
        }
    }

    /// Starts a store, and an agent on each host. They know of each other.
    pub fn new(fleet: &'f Fleet) -> Self {
        let mut case = Self::without_agents(fleet);
        case.agents = (0..3).map(|host| case.agent(host)).collect();
        for host in 0..3 {
            eventually("all hosts are members", || case.says(host)["hosts"] == 3);
        }
        case
    }

    /// Starts the agent of a host, with the name `host-N` in the store.
    pub fn agent(&self, host: usize) -> Agent {
        let name = format!("host-{host}");
        let store = self.store.agent_url();
        let url = match &self.pooler {
            Some(pooler) => pooler.url(&store, self.store.port),
            None => store,
        };
        Agent::start(self.fleet.host(host), &url, &["--host", &name])
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
    pub fn figures(&self, client: Ipv4Addr, figure: &str) -> Vec<u64> {
        let packets = |host| {
            number(&self.fleet.check(host, client)["limits"][0][format!("{figure}_packets")])
        };
        (0..3).map(packets).collect()
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
            let stated = (0..3).map(|host| self.overshoot(host)).fold(0.0, f64::max);
            let begin = self.mark();
            thread::sleep(WINDOW);
            let end = self.mark();
            let sum = |mark: &Mark| mark.passed.iter().sum::<u64>();
            let admitted = (sum(&end) - sum(&begin)) as f64;
            let time = end.between.1 - begin.between.0;
            let most = LIMIT.tokens(time) + stated;
            let apart = (3 * LIMIT.rate) as f64 * time as f64 / 1e9;
            println!("{admitted} of at most {most:.0}; {stated:.0} overshoot; {apart:.0} apart");
            assert!(admitted <= most, "{admitted} of at most {most}");
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

    /// Waits until the agents of all hosts reach the store and each other again. Then the bound holds.
    pub fn recovers(&self) {
        for host in 0..3 {
            eventually(&format!("host {host} reaches the store again"), || {
                let says = self.says(host);
                says["error"].is_null()
                    && says["hosts"] == 3
                    && says["staleness_seconds"].as_f64() < Some(0.8)
            });
        }
        self.bound_holds();
    }

    /// Waits until a host's agent reports that the store does not answer for a reason with the words `why`, and that the
    /// data of other hosts grow stale. An agent that has just lost its connection reports the loss first. Returns the
    /// reason.
    pub fn grows_stale(&self, host: usize, why: &str) -> String {
        let mut error = String::new();
        eventually(&format!("host {host} is alone: {why}"), || {
            let says = self.says(host);
            error = says["error"].as_str().unwrap_or_default().to_owned();
            error.contains(why) && says["staleness_seconds"].as_f64() > Some(1.0)
        });
        error
    }

    /// Stops the load. Panics unless each host has kept its own limit.
    pub fn stop(&self, stream: Stream) -> Sent {
        let sent = stream.stop();
        let most = LIMIT.tokens(sent.longest());
        let passed = self.figures(source(HOT), "passed");
        for (host, passed) in passed.iter().enumerate() {
            assert!(*passed as f64 <= most, "host {host}: {passed} of {most}");
        }
        sent
    }

    /// Stops the load. Panics unless each host has kept its own limit, the hot source got all tokens, and hardly any
    /// packet of the calm source was refused.
    pub fn end(&self, stream: Stream) {
        let sent = self.stop(stream);
        let is_calm = |place: usize| sent.packets[place].source == LOAD.1 - 1;
        let due = *LIMIT.admits(&sent.times(|place| !is_calm(place))).start() as f64;
        let total = self.figures(source(HOT), "passed").iter().sum::<u64>() as f64;
        assert!(total >= due * 0.95, "{total} of {due}: punished");
        let times = sent.times(is_calm);
        let dropped = self.figures(source(CALM), "dropped");
        let due = *LIMIT.admits(&times).start();
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
