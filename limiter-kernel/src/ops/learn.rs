//! The program of `learn`, which only observes. It is on an interface for as long as a process holds it.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use aya::maps::{Array, MapData, PerCpuArray, PerCpuHashMap, RingBuf};
use limiter_common::{
    abi::{
        counters::Count,
        learn::{PORTS, Sample, Service, Sighting, Totals},
    },
    table::{Seed, key::Address},
};
use limiter_config::{Direction, Mode};

use crate::{
    Error, Result,
    ops::attach,
    program::{Program, Raw, maps, object},
    state::occupant,
    sys::{Interface, Link, XdpMode, clock, interface, native_mode, requirements},
};

/// Interval between reads of the ring buffer, which has room for some 100,000 sightings.
pub const INTERVAL: Duration = Duration::from_millis(10);
/// Interval between searches for sources that send too much.
const ROUND: Duration = Duration::from_millis(100);
/// Sightings of one source in one round above which it is only counted.
const LOUD: u32 = 2_000;
/// The most sources that are only counted: the size of the map.
const MUTED_MAX: usize = 256;
/// The most sightings that are taken in between two looks at the clock.
const AT_ONCE: usize = 50_000;

/// Keeps what the program sees.
pub trait Sightings {
    /// Adds packets of a source for a service at `time` (nanoseconds).
    fn see(&mut self, time: u64, source: Address, service: Service, packets: u64);

    /// The sources that the program reports.
    fn sample(&self) -> Sample;

    /// Makes the program report every second one of these sources.
    fn halve(&mut self);
}

/// All that was seen.
#[derive(Debug)]
pub struct Observed<S> {
    /// The reported sources.
    pub sightings: S,
    /// Counters of all sources.
    pub totals: Totals,
    /// Destination ports of TCP to which a segment came that follows a handshake.
    pub in_use: HashSet<u16>,
    /// Begin of the observation, in nanoseconds of the kernel's clock.
    pub begun: u64,
    /// Duration of the observation, in nanoseconds.
    pub duration: u64,
}

/// The program on an interface. It comes off when this value is dropped, or the process ends.
pub struct Watch<S> {
    /// The interface.
    pub interface: Interface,
    /// The XDP mode that the program runs in.
    pub mode: XdpMode,
    /// The reason why the program does not run in the driver, if mode was `auto`.
    pub fallback: Option<String>,
    link: Link,
    // The program must live as long as the link; the maps as long as these fields.
    _program: Program,
    sightings: RingBuf<MapData>,
    totals: PerCpuArray<MapData, Raw<Totals>>,
    sample: Array<MapData, Raw<Sample>>,
    muted: PerCpuHashMap<MapData, Raw<Address>, Raw<Count>>,
    in_use: Array<MapData, u32>,
    /// All that was seen so far.
    pub kept: S,
    begun: u64,
    /// Beginning of the round, and its packets.
    began: Instant,
    by_source: HashMap<Address, (u32, Service)>,
    /// Sources that are only counted: their packets so far, and the service that they sent to before.
    counted: HashMap<Address, (u64, Service)>,
    lost: u64,
}

impl<S: Sightings> Watch<S> {
    /// Attaches the program to the interface called `name`, in `mode`. `new`: creates what keeps the sightings. Its seed
    /// decides which sources are reported.
    pub async fn start(name: &str, mode: Mode, new: impl FnOnce(Seed) -> S) -> Result<Self> {
        requirements::kernel()?;
        requirements::privileges()?;
        let interface = interface::by_name(name).await?;
        interface.is_seen(Direction::In)?;
        if !interface.ethernet {
            return Err(Error::Refused(format!(
                "packets on '{}' have no Ethernet header, and `learn` would misread them: run it on the interface that they arrive on first",
                interface.name
            )));
        }
        if let Some(xdp) = interface.xdp {
            return Err(Error::Refused(format!(
                "{}: remove it while you learn (`limiter detach {name}` if it is limiter's), or capture incoming packets and `limiter learn --capture FILE`",
                occupant::in_the_way(&interface, xdp)
            )));
        }
        let kept = new(object::new_seed()?);
        let mut program = object::load_learn(requirements::has_frags())?;
        let mut map = |name| program.take_map(name);
        let sightings = map("SIGHTINGS")?.try_into()?;
        let totals = map("TOTALS")?.try_into()?;
        let muted = map("MUTED")?.try_into()?;
        let in_use = map("IN_USE")?.try_into()?;
        let mut sample: Array<_, _> = map("SAMPLE")?.try_into()?;
        sample.set(0, Raw(kept.sample()), 0)?;
        let fd = program.fd()?;
        // Native mode would change the other end of a veth, and make its transfers slower.
        let is_gentle = mode == Mode::Auto && interface.veth;
        let mode = if is_gentle { Mode::Generic } else { mode };
        let why = native_mode::drawback(&interface).filter(|_| is_gentle);
        let (link, mode, fallback) = attach::in_best_mode(&interface, mode, |mode, fallback| {
            let link = Link::create(fd, interface.index, mode);
            Ok(link.map(|link| (link, mode, fallback)))
        })?;
        let begun = clock::now()?;
        Ok(Self {
            mode,
            fallback: fallback.or(why.map(str::to_owned)),
            link,
            sightings,
            totals,
            sample,
            muted,
            in_use,
            _program: program,
            kept,
            begun,
            began: Instant::now(),
            by_source: HashMap::new(),
            counted: HashMap::new(),
            lost: 0,
            interface,
        })
    }

    /// Takes in new sightings. Call it every [`INTERVAL`].
    pub fn pump(&mut self) -> Result<()> {
        self.take_in();
        if self.began.elapsed() >= ROUND {
            self.end_round()?;
        }
        Ok(())
    }

    /// Takes in at most [`AT_ONCE`] sightings. Returns whether there may be more.
    fn take_in(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Some(sighting) = self.sightings.next() else {
                return false;
            };
            let Some(sighting) = Raw::<Sighting>::read(&sighting) else {
                continue;
            };
            let Sighting {
                nanoseconds,
                source,
                service,
            } = sighting;
            let (sent, latest) = self.by_source.entry(source).or_default();
            (*sent, *latest) = (*sent + 1, service);
            self.kept.see(nanoseconds, source, service, 1);
        }
        true
    }

    /// Takes in the sources that were only counted, and reduces the load of the next round.
    fn end_round(&mut self) -> Result<()> {
        self.count_muted()?;
        let before = self.counted.len();
        self.mute_loud()?;
        let lost = self.totals()?.lost.packets;
        if lost > self.lost && self.counted.len() == before {
            self.kept.halve();
        }
        self.lost = lost;
        let sample = Sample {
            muted: u64::from(!self.counted.is_empty()),
            ..self.kept.sample()
        };
        self.sample.set(0, Raw(sample), 0)?;
        self.by_source.clear();
        self.began = Instant::now();
        Ok(())
    }

    fn mute_loud(&mut self) -> Result<()> {
        let loud = self.by_source.iter().filter(|(_, (sent, _))| *sent > LOUD);
        let loud = loud.map(|(source, (_, service))| (*source, *service));
        for (source, service) in loud.collect::<Vec<_>>() {
            if self.counted.len() == MUTED_MAX || self.counted.contains_key(&source) {
                continue;
            }
            let zeros = maps::zeros()?;
            self.muted.insert(Raw(source), zeros, 0)?;
            self.counted.insert(source, (0, service));
        }
        Ok(())
    }

    fn count_muted(&mut self) -> Result<()> {
        let now = clock::now()?;
        for (source, (counted, service)) in &mut self.counted {
            let of_cpus = self.muted.get(&Raw(*source), 0)?;
            let all: Count = of_cpus.iter().map(|Raw(count)| *count).sum();
            let packets = all.packets.wrapping_sub(*counted);
            *counted = all.packets;
            if packets > 0 {
                self.kept.see(now, *source, *service, packets);
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals> {
        let of_cpus = maps::of_cpus(&self.totals, 0)?;
        let sum = |count: fn(&Totals) -> Count| of_cpus.iter().map(count).sum();
        Ok(Totals {
            seen: sum(|totals| totals.seen),
            lost: sum(|totals| totals.lost),
            malformed: sum(|totals| totals.malformed),
            connections: sum(|totals| totals.connections),
            control: sum(|totals| totals.control),
        })
    }

    /// IP packets so far.
    pub fn seen(&self) -> Result<Count> {
        Ok(self.totals()?.seen)
    }

    fn in_use(&self) -> Result<HashSet<u16>> {
        let mut ports = HashSet::new();
        for port in 0..PORTS {
            if self.in_use.get(&port, 0)? != 0 {
                ports.extend(u16::try_from(port));
            }
        }
        Ok(ports)
    }

    /// Returns true if the interface is gone, or the program was taken off it.
    pub fn is_off(&self) -> Result<bool> {
        Ok(self.link.info()?.interface == 0)
    }

    /// Takes the program off, and returns everything seen.
    pub fn finish(mut self) -> Result<Observed<S>> {
        self.link.detach()?;
        let duration = clock::now()?.saturating_sub(self.begun);
        while self.take_in() {}
        self.end_round()?;
        Ok(Observed {
            totals: self.totals()?,
            in_use: self.in_use()?,
            begun: self.begun,
            duration,
            sightings: self.kept,
        })
    }
}
