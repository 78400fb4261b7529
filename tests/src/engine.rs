//! Runs the real program in the kernel by test-run, which decides about a packet at the time that the test chooses.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use limiter_common::{
    abi::{CLOCK_PACKET, Config, Listed, Source, Stamp},
    arithmetic::scale,
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};
use limiter_user::{
    config,
    config::{
        Algorithm, Burst, Key, Rate, Settings,
        compile::{FIRST_SLOT, TierBits},
        slot::Slot,
    },
    kernel::{
        ops::replay,
        program::{
            maps::Tables,
            object,
            object::{ListMaps, Maps, Program},
        },
        sys::bpf,
    },
    observe::reader::Reader,
};

use crate::store::Store;

/// A configured limit, and other settings of the program.
#[derive(Clone, Debug)]
pub struct Limit {
    /// `--rate`.
    pub rate: Rate,
    /// `--burst`.
    pub burst: Burst,
    /// `--key`.
    pub key: Key,
    /// `cost`.
    pub cost: Option<u64>,
    /// `algorithm`.
    pub algorithm: Algorithm,
    /// `--max-sources`.
    pub capacity: u32,
}

/// The longest frame of the tests.
pub const FRAME_MAX: u64 = 1_522;

impl Limit {
    /// A limit per source.
    pub fn new(rate: &str, burst: &str) -> Self {
        Self {
            rate: rate.parse().unwrap(),
            burst: burst.parse().unwrap(),
            key: Key::default(),
            cost: None,
            algorithm: Algorithm::TokenBucket,
            capacity: 4_096,
        }
    }

    fn written(&self) -> config::Limit {
        config::Limit {
            burst: Some(self.burst),
            key: self.key,
            cost: self.cost,
            algorithm: self.algorithm,
            ..config::Limit::new("default", self.rate)
        }
    }

    /// The program's constants.
    pub fn config(&self) -> Box<Config> {
        let settings = Settings {
            limits: vec![self.written()],
            max_sources: self.capacity,
            new_sources: None,
            ..Settings::default()
        };
        constants(&settings, CLOCK_PACKET).0
    }

    /// The key of a source's bucket.
    pub fn of(&self, source: IpAddr) -> SourceKey {
        self.key.of(FIRST_SLOT, source, 0)
    }

    fn reader(&self, nanoseconds: u64) -> Reader {
        let limit = self.written();
        Reader {
            slot: FIRST_SLOT,
            shadow: false,
            quota: limit.quota(FRAME_MAX).unwrap(),
            epoch: 0,
            past: Vec::new(),
            now: nanoseconds,
            stretch: scale::ONE,
            limit,
        }
    }
}

/// The program in the kernel.
#[derive(Debug)]
pub struct Kernel {
    /// The loaded program.
    pub program: Program,
    /// Its maps.
    pub tables: Tables,
    /// The table of sources, word by word.
    pub store: Store,
    /// The limit, of a program with one.
    pub limit: Limit,
}

const STAMP: usize = size_of::<Stamp>();
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

impl Kernel {
    /// Loads the program with the packet's clock.
    pub fn new(limit: &Limit) -> Self {
        Self::load(limit, &limit.config(), true)
    }

    /// Loads the program with several limits and lists, with the packet's clock.
    pub fn of(settings: &Settings) -> Self {
        Self::with_clock(settings, CLOCK_PACKET)
    }

    /// Loads the program with one of the two clocks. The first limit gets the first slot.
    pub fn with_clock(settings: &Settings, clock: u32) -> Self {
        Self::with_maps(settings, clock, Maps::New)
    }

    /// Loads the program with several limits and lists, the packet's clock, and a table with this `seed`. Programs with
    /// equal seeds evict equal sources.
    pub fn seeded(settings: &Settings, seed: Seed) -> Self {
        Self::with_maps(settings, CLOCK_PACKET, Maps::Replayed { seed, full_at: 0 })
    }

    fn with_maps(settings: &Settings, clock: u32, maps: Maps<'_>) -> Self {
        let (config, prefixes) = constants(settings, clock);
        Self::start(&Limit::new("1/s", "1"), &config, &prefixes, true, maps)
    }

    /// Loads the program with these constants, with the entry for multi-buffer packets or without.
    pub fn load(limit: &Limit, config: &Config, frags: bool) -> Self {
        Self::start(limit, config, &BTreeMap::new(), frags, Maps::New)
    }

    fn start(
        limit: &Limit,
        config: &Config,
        prefixes: &BTreeMap<IpNet, Listed>,
        frags: bool,
        maps: Maps<'_>,
    ) -> Self {
        let lists = ListMaps::New(prefixes);
        let loaded = object::load(config, maps, lists, frags);
        Self {
            limit: limit.clone(),
            ..Self::over(loaded.unwrap())
        }
    }

    /// The engine of a loaded program.
    pub fn over(mut program: Program) -> Self {
        let store = Store::of(&mut program);
        let tables = program.tables().unwrap();
        Self {
            program,
            tables,
            store,
            limit: Limit::new("1/s", "1"),
        }
    }

    /// Runs the program on `packet` at time `nanoseconds`. Returns the reason for its verdict.
    pub fn offer(&self, packet: &[u8], nanoseconds: u64) -> Reason {
        let (action, reason, left) = self.run(packet, nanoseconds);
        let wanted = if reason.passes() { XDP_PASS } else { XDP_DROP };
        assert_eq!(action, wanted, "action and reason {reason:?} must agree");
        assert_eq!(left, packet, "the program changes no packet");
        reason
    }

    /// True if `packet` passes.
    pub fn passes(&self, packet: &[u8], nanoseconds: u64) -> bool {
        self.offer(packet, nanoseconds).passes()
    }

    /// The entry of a source, if any.
    pub fn entry(&self, key: &SourceKey) -> Option<Source> {
        self.tables.sets.source(key)
    }

    /// Tokens that `source` has left, and seconds until it may send again, as `check` shows them.
    pub fn check(&self, source: IpAddr, nanoseconds: u64) -> (f64, f64) {
        let entry = self.entry(&self.limit.of(source));
        let checked = (self.limit.reader(nanoseconds)).check(String::new(), entry.as_ref());
        let wait = checked.retry_after_seconds.unwrap_or(f64::INFINITY);
        (checked.tokens, wait)
    }

    /// Runs the program `times` times on the packet, by the kernel's clock. Returns true if it passed the last time.
    pub fn repeat(&self, packet: &[u8], times: u32) -> bool {
        let program = self.program.fd().unwrap();
        let run = bpf::test_run(program, &mut packet.to_vec(), 0, times);
        run.unwrap().action == XDP_PASS
    }

    /// Runs the program once. Returns the packet as the program left it.
    pub fn run(&self, packet: &[u8], nanoseconds: u64) -> (u32, Reason, Vec<u8>) {
        let stamp = Stamp {
            nanoseconds,
            reason: replay::UNSAID,
            uncertainty: uncertainty(nanoseconds),
            length: 0,
        };
        let mut room = Vec::new();
        let (action, reason) =
            replay::run(self.program.fd().unwrap(), stamp, packet, &mut room).unwrap();
        (action, reason, room.split_off(STAMP))
    }
}

/// The program's constants for these settings, and the prefixes of its lists. The first limit gets the first slot.
pub fn constants(settings: &Settings, clock: u32) -> (Box<Config>, BTreeMap<IpNet, Listed>) {
    let slots: Vec<_> = (0..)
        .zip(settings.all_limits())
        .map(|(number, limit)| Slot {
            name: limit.name,
            number,
            // Windows begin with the clock.
            phase: 0,
            epoch: 0,
            past: Vec::new(),
        })
        .collect();
    let bits = TierBits::default().for_settings(settings).0;
    let mut compiled = settings.compile(&slots, &bits, FRAME_MAX).unwrap();
    compiled.clock = clock;
    (compiled, settings.lists.compile(&bits))
}

/// A random width for the program's bounds of time, because no verdict may depend on it.
fn uncertainty(nanoseconds: u64) -> u32 {
    let mut rng = fastrand::Rng::with_seed(nanoseconds);
    rng.u32(..) >> rng.u32(0..32)
}
