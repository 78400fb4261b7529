//! Runs the real program in the kernel by test-run, which decides about a packet at the time that the test chooses.

use std::{
    net::IpAddr,
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU64, Ordering},
};

use limiter_common::{
    abi::{CLOCK_PACKET, Constants, Source, Stamp},
    arithmetic::{quota::LENGTH_MAX, scale},
    policy::verdict::Reason,
    table::{Seed, key::SourceKey},
};
use limiter_config::{
    Algorithm, Burst, Direction, Key, Mode, Rate, Settings, TierBits,
    compile::{Compiled, FIRST_SLOT},
    slot::Slot,
};
use limiter_kernel::program::{
    maps::Tables,
    object,
    object::{ListMaps, Maps, Program},
};
use limiter_user::{observe::reader::Reader, plan::capture as captured};

use crate::{
    need,
    store::Store,
    test_run::{STAMP, UNSAID, run_stamped, test_run, test_run_in},
};

/// A configured limit, and other settings of the program.
#[derive(Clone, Debug)]
pub struct Limit {
    /// `--rate`.
    pub rate: Rate,
    /// `--burst`; `None`: the default.
    pub burst: Option<Burst>,
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
            burst: Some(burst.parse().unwrap()),
            key: Key::default(),
            cost: None,
            algorithm: Algorithm::TokenBucket,
            capacity: 4_096,
        }
    }

    fn written(&self) -> limiter_config::Limit {
        limiter_config::Limit {
            burst: self.burst,
            key: self.key,
            cost: self.cost,
            algorithm: self.algorithm,
            ..limiter_config::Limit::new("default", self.rate)
        }
    }

    /// The program's constants.
    pub fn config(&self) -> Box<Constants> {
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
pub struct Kernel {
    /// The loaded program.
    pub program: Program,
    /// Its maps.
    pub tables: Tables,
    /// The table of sources, word by word.
    pub store: Store,
    /// Whether it is the program for the network stack.
    pub tc: bool,
    /// Departure time that senders ask for, in nanoseconds; 0: none.
    pub asked: AtomicU64,
    /// Time at which the last packet leaves, in nanoseconds; 0: at once.
    pub leaves_at: AtomicU64,
    /// The limit, of a program with one.
    pub limit: Limit,
}

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const TCX_NEXT: u32 = u32::MAX;
const TCX_DROP: u32 = 2;

impl Kernel {
    /// Loads the program with the packet's clock.
    pub fn new(limit: &Limit) -> Self {
        Self::load(limit, &limit.config(), true)
    }

    /// [`Self::new`] for each hook that this kernel has.
    pub fn at_each_hook(limit: &Limit) -> Vec<Self> {
        let hooks = if need::tcx() { 0..=1 } else { 0..=0 };
        let load = |tc| {
            let mut config = limit.config();
            config.tc = tc;
            Self::load(limit, &config, true)
        };
        hooks.map(load).collect()
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

    /// Loads the program as `replay`'s model decides: without the host's sockets, for frames at an XDP hook, and with
    /// the model's seed. Time starts at `begin` (nanoseconds).
    pub fn replaying(settings: &Settings, begin: u64) -> Self {
        let mut settings = settings.clone();
        settings.exempt.established = false;
        let (mut config, prefixes) = constants(&settings, CLOCK_PACKET);
        // The program for the network stack decides the same, but the kernel does not run it on all frames.
        config.tc = 0;
        let maps = Maps::Replayed {
            seed: config.seed,
            full_at: begin,
        };
        Self::start(&Limit::new("1/s", "1"), &config, &prefixes, true, maps)
    }

    fn with_maps(settings: &Settings, clock: u32, maps: Maps<'_>) -> Self {
        let (config, prefixes) = constants(settings, clock);
        Self::start(&Limit::new("1/s", "1"), &config, &prefixes, true, maps)
    }

    /// Loads the program with these constants, with the entry for multi-buffer packets or without.
    pub fn load(limit: &Limit, config: &Constants, frags: bool) -> Self {
        Self::start(limit, config, &Compiled::default(), frags, Maps::New)
    }

    fn start(
        limit: &Limit,
        config: &Constants,
        prefixes: &Compiled,
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
            tc: program.entry().ends_with("_tc"),
            asked: AtomicU64::new(0),
            leaves_at: AtomicU64::new(0),
            program,
            tables,
            store,
            limit: Limit::new("1/s", "1"),
        }
    }

    /// Runs the program on `packet` at time `nanoseconds`. Returns the reason for its verdict.
    pub fn offer(&self, packet: &[u8], nanoseconds: u64) -> Reason {
        let (action, reason, left) = self.run(packet, nanoseconds);
        let wanted = match (self.tc, reason.passes()) {
            (false, true) => XDP_PASS,
            (false, false) => XDP_DROP,
            (true, true) => TCX_NEXT,
            (true, false) => TCX_DROP,
        };
        assert_eq!(action, wanted, "action and reason {reason:?} must agree");
        assert_eq!(left, packet, "the program changes no packet");
        reason
    }

    /// [`Self::offer`] of a captured frame, which may be truncated.
    pub fn offer_captured(&self, frame: &captured::Frame, nanoseconds: u64) -> Reason {
        let length = u32::try_from(frame.length.min(LENGTH_MAX)).unwrap();
        // In the program, 0 means that the clock has not been read.
        self.run_of_length(&frame.bytes, length, nanoseconds.max(1))
            .1
    }

    /// Runs the program for the network stack on the first bytes of a merged packet of this length, with the kernel's
    /// `gso_size` and `gso_segs`.
    pub fn offer_merged(&self, frame: &[u8], length: u32, segment: u32, count: u32) {
        let stamp = Stamp {
            nanoseconds: 1,
            reason: UNSAID,
            uncertainty: 0,
            length,
            reserved: 0,
        };
        let mut context = context_of(&stamp);
        (context[44], context[41]) = (segment, count);
        let program = self.program.fd().unwrap();
        test_run_in(program, &mut frame.to_vec(), &mut context, 1).unwrap();
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
        let run = test_run(program, &mut packet.to_vec(), 0, times);
        run.unwrap().action == XDP_PASS
    }

    /// Runs the program once. Returns the packet as the program left it.
    pub fn run(&self, packet: &[u8], nanoseconds: u64) -> (u32, Reason, Vec<u8>) {
        self.run_of_length(packet, 0, nanoseconds)
    }

    /// Runs the program once, on the captured bytes of a packet that was `length` bytes long; 0: no more than these.
    fn run_of_length(
        &self,
        packet: &[u8],
        length: u32,
        nanoseconds: u64,
    ) -> (u32, Reason, Vec<u8>) {
        let stamp = Stamp {
            nanoseconds,
            reason: UNSAID,
            uncertainty: uncertainty(nanoseconds),
            length,
            reserved: 0,
        };
        let mut room = Vec::new();
        let program = self.program.fd().unwrap();
        if self.tc {
            room.extend(packet);
            let asked = self.asked.load(Ordering::Relaxed);
            let (action, reason, leaves_at) = run_tc(program, stamp, &mut room, asked);
            self.leaves_at.store(leaves_at, Ordering::Relaxed);
            return (action, reason, room);
        }
        let (action, reason) = run_stamped(program, stamp, packet, &mut room);
        (action, reason, room.split_off(STAMP))
    }
}

/// Whether the kernel runs a program for the network stack on this frame in a test-run: it wants a whole IP header.
pub fn runs_tc(frame: &[u8]) -> bool {
    let header = match frame.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 1,
    };
    frame.len() >= 14 + header
}

/// Runs the program for the network stack once, on a packet whose sender has `asked` for this departure time. Returns its
/// verdict as a number of the kernel, the reason, and the time at which the packet leaves.
fn run_tc(
    program: BorrowedFd<'_>,
    stamp: Stamp,
    frame: &mut [u8],
    asked: u64,
) -> (u32, Reason, u64) {
    let mut context = context_of(&stamp);
    context[38..40].copy_from_slice(&[asked as u32, (asked >> 32) as u32]);
    let run = test_run_in(program, frame, &mut context, 1).unwrap();
    let leaves_at = u64::from(context[39]) << 32 | u64::from(context[38]);
    (
        run.action,
        Reason::from_number(context[14]).unwrap(),
        leaves_at,
    )
}

/// The words of `struct __sk_buff` (include/uapi/linux/bpf.h), with the stamp in its control block.
fn context_of(stamp: &Stamp) -> [u32; 48] {
    let mut context = [0; 48];
    let [low, high] = [stamp.nanoseconds as u32, (stamp.nanoseconds >> 32) as u32];
    context[12..17].copy_from_slice(&[low, high, stamp.reason, stamp.uncertainty, stamp.length]);
    context
}

/// The program's constants for these settings, and the prefixes of its lists. The first limit gets the first slot.
pub fn constants(settings: &Settings, clock: u32) -> (Box<Constants>, Compiled) {
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
    compiled.tc = is_tc(settings).into();
    (compiled, settings.lists.compile(&bits))
}

/// Whether the settings want the program for the network stack.
pub fn is_tc(settings: &Settings) -> bool {
    settings.mode == Mode::Tc || settings.direction == Direction::Out
}

/// A random width for the program's bounds of time, because no verdict may depend on it.
fn uncertainty(nanoseconds: u64) -> u32 {
    let mut rng = fastrand::Rng::with_seed(nanoseconds);
    rng.u32(..) >> rng.u32(0..32)
}
